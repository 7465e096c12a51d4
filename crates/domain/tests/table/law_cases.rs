//! Checks that every law can be broken and is then reported.

/// A law, and a cell and a verdict that break it and no earlier one.
pub(crate) type Case<C, V> = (&'static str, C, V);

/// Breaks each law in a cell where nothing else is wrong, and expects that law to be reported.
pub(crate) fn check<C, V>(
    name: &str,
    laws: &[&'static str],
    cases: &[Case<C, V>],
    broken: impl Fn(&C, &V) -> Option<&'static str>,
) -> Result<String, String> {
    if let Some(law) = laws.iter().find(|law| cases.iter().all(|(broken, ..)| broken != *law)) {
        return Err(format!("no case breaks the law \"{law}\""));
    }
    for (law, cell, verdict) in cases {
        let reported = broken(cell, verdict);
        if reported != Some(law) {
            return Err(format!("broken on purpose: \"{law}\"; reported: {reported:?}"));
        }
    }
    let (laws, ways) = (laws.len(), cases.len());
    Ok(format!("{name} laws: {laws} laws, reported when broken in {ways} ways"))
}
