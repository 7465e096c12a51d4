//! A need in one line: `cpu=64,memory=256Gi,min.cpu=4,in.zone=a|b,priority=10`.

use std::collections::BTreeMap;

use usher_wire::operator::{Need, Requirement};

/// The label requirements, by prefix.
const REQUIREMENTS: [(&str, &str); 4] =
    [("in.", "In"), ("not-in.", "NotIn"), ("exists.", "Exists"), ("absent.", "DoesNotExist")];
/// The prefix of an amount that each machine must have.
const MIN: &str = "min.";

/// Parses a need; an error names the wrong piece. The server checks the amounts.
pub(super) fn read(text: &str) -> Result<Need, String> {
    let mut need = Need {
        aggregate: BTreeMap::new(),
        min_unit: BTreeMap::new(),
        requirements: vec![],
        priority: 0,
        spread: vec![],
        interruption_bucket: 0,
        reclamation_bucket: 0,
        group: String::new(),
    };
    for piece in text.split(',') {
        put(&mut need, piece).ok_or_else(|| {
            format!(
                "\"{piece}\" is not NAME=AMOUNT, min.NAME=AMOUNT, in.KEY=A|B, not-in.KEY=A|B, \
                 exists.KEY, absent.KEY, priority=N, interruption=N, reclamation=N or group=NAME"
            )
        })?;
    }
    Ok(need)
}

fn put(need: &mut Need, piece: &str) -> Option<()> {
    for (prefix, operator) in REQUIREMENTS {
        if let Some(rest) = piece.strip_prefix(prefix) {
            let (key, values) = match rest.split_once('=') {
                Some((key, values)) => (key, values.split('|').map(str::to_owned).collect()),
                None => (rest, vec![]),
            };
            let (key, operator) = (key.to_owned(), operator.to_owned());
            need.requirements.push(Requirement { key, operator, values });
            return Some(());
        }
    }
    let (key, value) = piece.split_once('=').filter(|(key, _)| !key.is_empty())?;
    match key {
        "priority" => need.priority = value.parse().ok()?,
        "interruption" => need.interruption_bucket = value.parse().ok()?,
        "reclamation" => need.reclamation_bucket = value.parse().ok()?,
        "group" => value.clone_into(&mut need.group),
        _ => {
            let (amounts, name) = match key.strip_prefix(MIN) {
                Some(name) => (&mut need.min_unit, name),
                None => (&mut need.aggregate, key),
            };
            amounts.insert(name.to_owned(), value.to_owned());
        }
    }
    Some(())
}

/// The need as it could be typed; the priority has a column of its own.
pub(super) fn written(need: &Need) -> String {
    let mut pieces: Vec<String> =
        need.aggregate.iter().map(|(name, amount)| format!("{name}={amount}")).collect();
    pieces.extend(need.min_unit.iter().map(|(name, amount)| format!("{MIN}{name}={amount}")));
    for it in &need.requirements {
        let known = REQUIREMENTS.iter().find(|(_, operator)| *operator == it.operator);
        let prefix = known.map_or("?.", |(prefix, _)| prefix);
        let values = if it.values.is_empty() { String::new() } else { it.values.join("|") };
        let equals = if values.is_empty() { "" } else { "=" };
        pieces.push(format!("{prefix}{}{equals}{values}", it.key));
    }
    let numbers =
        [("interruption", need.interruption_bucket), ("reclamation", need.reclamation_bucket)];
    pieces.extend(numbers.iter().filter(|it| it.1 != 0).map(|(key, it)| format!("{key}={it}")));
    if !need.group.is_empty() {
        pieces.push(format!("group={}", need.group));
    }
    pieces.join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_need_is_parsed_and_rendered_in_one_line() {
        let text = "cpu=64,memory=256Gi,min.cpu=4,in.zone=a|b,not-in.type=old,exists.gpu,\
            absent.spot,interruption=3,reclamation=4,group=g";
        let need = read(&format!("{text},priority=-10")).unwrap();
        assert_eq!(need.priority, -10);
        assert_eq!(need.aggregate["memory"], "256Gi");
        assert_eq!(need.min_unit["cpu"], "4");
        assert_eq!(need.requirements[0].values, ["a", "b"]);
        assert_eq!(need.requirements[2].operator, "Exists");
        assert_eq!(written(&need), text);
    }

    #[test]
    fn a_wrong_piece_is_named_in_the_error() {
        for (text, piece) in [("", ""), ("cpu=1,,", ""), ("cpu", "cpu"), ("cpu=1,=2", "=2")] {
            let why = read(text).unwrap_err();
            assert!(why.starts_with(&format!("\"{piece}\" is not ")), "{text}: {why}");
        }
        assert!(read("cpu=1,priority=high").unwrap_err().contains("priority=high"));
    }
}
