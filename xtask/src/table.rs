//! Reading the hand-written transition tables.
//!
//! It knows the form of a table, not its meaning: a test of `usher-domain` compares every cell of
//! it with `decide`.

/// The fact whose values are the nodes of the chart.
pub(crate) const PHASE: &str = "phase";

/// A transition table.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Table {
    /// Its name.
    pub(crate) name: String,
    /// The declared facts, with their values.
    pub(crate) facts: Vec<Fact>,
    /// Its sections, in order.
    pub(crate) sections: Vec<Section>,
}

/// A declared fact.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Fact {
    /// Its name.
    pub(crate) name: String,
    /// Every value it can have.
    pub(crate) values: Vec<String>,
}

/// Rows that share their circumstances.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Section {
    /// What it is about.
    pub(crate) title: String,
    /// Circumstances of which one must hold; none means always.
    pub(crate) given: Vec<Vec<Condition>>,
    /// Its rows.
    pub(crate) rows: Vec<Row>,
}

/// One rule.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Row {
    /// What must hold; a fact that is not mentioned may have any value.
    pub(crate) when: Vec<Condition>,
    /// What is decided, as written.
    pub(crate) then: Vec<(String, String)>,
}

/// What one fact must be, or must not be.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Condition {
    /// The fact.
    pub(crate) fact: String,
    /// Whether the values are those it must not have.
    pub(crate) negated: bool,
    /// The values.
    pub(crate) values: Vec<String>,
}

/// A line that cannot be read.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct BadLine {
    /// Which one, counted from one.
    pub(crate) line: usize,
    /// What is wrong with it.
    pub(crate) what: String,
}

impl Table {
    /// Reads a table.
    pub(crate) fn parse(text: &str) -> Result<Self, BadLine> {
        let mut table = Self { name: String::new(), facts: Vec::new(), sections: Vec::new() };
        for (index, line) in text.lines().enumerate() {
            let line = without_comment(line).trim();
            if !line.is_empty() {
                table.take(line).map_err(|what| BadLine { line: index + 1, what })?;
            }
        }
        if table.name.is_empty() {
            return Err(BadLine { line: 1, what: "no line \"table NAME\"".to_owned() });
        }
        Ok(table)
    }

    /// The values of a declared fact.
    pub(crate) fn values(&self, fact: &str) -> Option<&[String]> {
        self.facts.iter().find(|known| known.name == fact).map(|known| known.values.as_slice())
    }

    fn take(&mut self, line: &str) -> Result<(), String> {
        let (word, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
        let rest = rest.trim();
        match word {
            "table" if self.name.is_empty() && is_name(rest) => rest.clone_into(&mut self.name),
            "fact" | "seen" => {
                let fact = self.fact(rest)?;
                self.facts.push(fact);
            }
            "section" if !rest.is_empty() => {
                self.sections.push(Section { title: rest.to_owned(), ..Section::default() });
            }
            "given" => {
                let conditions = self.conditions(rest)?;
                let section = self.sections.last_mut().ok_or("\"given\" outside a section")?;
                if !section.rows.is_empty() {
                    return Err("\"given\" behind a row of its section".to_owned());
                }
                section.given.push(conditions);
            }
            "row" => {
                let row = self.row(rest)?;
                self.sections.last_mut().ok_or("a row outside a section")?.rows.push(row);
            }
            _ => return Err(format!("cannot read \"{line}\"")),
        }
        Ok(())
    }

    fn fact(&self, text: &str) -> Result<Fact, String> {
        let (name, values) =
            text.split_once(':').ok_or_else(|| format!("no values in \"{text}\""))?;
        let (name, values) = (name.trim(), words(values));
        if self.values(name).is_some() {
            return Err(format!("fact \"{name}\" is declared twice"));
        }
        if !is_name(name) || values.is_empty() || !values.iter().all(|value| is_name(value)) {
            return Err(format!("cannot read fact \"{text}\""));
        }
        Ok(Fact { name: name.to_owned(), values })
    }

    fn row(&self, text: &str) -> Result<Row, String> {
        let (when, then) =
            text.split_once("->").ok_or_else(|| format!("no \"->\" in \"{text}\""))?;
        let then: Vec<_> = then.split_whitespace().map(pair).collect::<Result<_, _>>()?;
        if then.is_empty() {
            return Err(format!("nothing behind \"->\" in \"{text}\""));
        }
        let phase = then.iter().find(|(key, _)| key == PHASE).map(|(_, value)| value.as_str());
        match (phase, self.values(PHASE)) {
            (Some(phase), Some(phases))
                if phase != "same" && !phases.iter().any(|p| p == phase) =>
            {
                Err(format!("unknown phase \"{phase}\""))
            }
            _ => Ok(Row { when: self.conditions(when)?, then }),
        }
    }

    fn conditions(&self, text: &str) -> Result<Vec<Condition>, String> {
        text.split_whitespace().map(|word| self.condition(word)).collect()
    }

    fn condition(&self, word: &str) -> Result<Condition, String> {
        let (fact, values) = pair(word)?;
        let domain = self.values(&fact).ok_or_else(|| format!("unknown fact \"{fact}\""))?;
        let negated = values.starts_with('!');
        let values: Vec<String> =
            values.trim_start_matches('!').split(',').map(str::to_owned).collect();
        match values.iter().find(|value| !domain.contains(value)) {
            Some(value) => Err(format!("fact \"{fact}\" has no value \"{value}\"")),
            None => Ok(Condition { fact, negated, values }),
        }
    }
}

impl Condition {
    /// Whether the fact may have this value.
    pub(crate) fn admits(&self, value: &str) -> bool {
        self.values.iter().any(|known| known == value) != self.negated
    }
}

impl Row {
    /// What the row decides under this key.
    pub(crate) fn decided(&self, key: &str) -> Option<&str> {
        self.then.iter().find(|(known, _)| known == key).map(|(_, value)| value.as_str())
    }
}

fn without_comment(line: &str) -> &str {
    if line.trim_start().starts_with('#') {
        return "";
    }
    line.find(" #").map_or(line, |at| &line[..at])
}

fn pair(word: &str) -> Result<(String, String), String> {
    match word.split_once('=') {
        Some((key, value)) if is_name(key) && !value.is_empty() => {
            Ok((key.to_owned(), value.to_owned()))
        }
        _ => Err(format!("cannot read \"{word}\": it is no key=value")),
    }
}

fn is_name(word: &str) -> bool {
    !word.is_empty() && word.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-'))
}

fn words(text: &str) -> Vec<String> {
    text.split_whitespace().map(str::to_owned).collect()
}

#[cfg(test)]
pub(crate) const SAMPLE: &str = "\
# A record in four phases.
table sample
fact phase: Pending Ready Leaving Deleted
fact intent: none requested
seen node: Live Lost Absent Unknown

section Converge
given intent=none phase=!Leaving,Deleted   # the intent wins
row node=Absent,Lost -> effect=Apply phase=Pending wake=poll reason=Applied
row node=Live -> phase=Ready event=Provisioned wake=change reason=AsDeclared
row node=Unknown -> phase=same wake=poll reason=Unreachable

section Teardown: the node is removed first
given intent=requested phase=!Deleted
given intent=none phase=Leaving
row node=Live,Lost -> effect=Deregister phase=Leaving wake=poll reason=Draining
row node=Absent -> phase=Deleted event=Deleted wake=never reason=Gone
row node=Unknown -> effect=Reread phase=same wake=poll reason=Unreachable
";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_is_read_as_written() {
        let table = Table::parse(SAMPLE).unwrap();
        assert_eq!(table.name, "sample");
        assert_eq!(table.values("node").unwrap().len(), 4);
        let [converge, teardown] = table.sections.as_slice() else { panic!("two sections") };
        assert_eq!(teardown.title, "Teardown: the node is removed first");
        assert_eq!((converge.given.len(), teardown.given.len()), (1, 2));
        let row = &teardown.rows[0];
        assert!(row.when[0].admits("Live") && !row.when[0].admits("Absent"));
        assert_eq!(row.decided("effect"), Some("Deregister"));
        assert_eq!(row.decided("event"), None);
        assert!(!converge.given[0][1].admits("Leaving") && converge.given[0][1].admits("Ready"));
    }

    #[test]
    fn a_bad_line_is_named_with_its_number() {
        let head = "table t\nfact phase: A B\nsection S\n";
        let cases = [
            ("row phase=A phase=B", "no \"->\" in \"phase=A phase=B\""),
            ("row phase=A ->", "nothing behind \"->\" in \"phase=A ->\""),
            ("row phase=C -> phase=A", "fact \"phase\" has no value \"C\""),
            ("row phase=A -> phase=C", "unknown phase \"C\""),
            ("row mood=A -> phase=A", "unknown fact \"mood\""),
            ("row phase -> phase=A", "cannot read \"phase\": it is no key=value"),
            ("fact phase: C", "fact \"phase\" is declared twice"),
            ("fact mood:", "cannot read fact \"mood:\""),
            ("rows phase=A -> phase=B", "cannot read \"rows phase=A -> phase=B\""),
        ];
        for (line, what) in cases {
            let refused = Table::parse(&format!("{head}{line}\n")).unwrap_err();
            assert_eq!(refused, BadLine { line: 4, what: what.to_owned() });
        }
        let late = format!("{head}row phase=A -> phase=B\ngiven phase=A\n");
        assert_eq!(Table::parse(&late).unwrap_err().line, 5);
        assert!(Table::parse("fact phase: A").is_err(), "a table has a name");
    }
}
