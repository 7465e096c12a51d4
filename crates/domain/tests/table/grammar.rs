//! The parser refuses broken tables and reports the line and the problem.

use crate::parse::parse;
use crate::refusal::{Problem, Refusal};
use crate::shape::{Absent, Evaluation, Machine, Origin, Outcome, Shape};

/// A good table of a door: line 1 is `table door`.
const GOOD: &str = "\
table door
fact state: Open Shut
seen hand: None Push Pull # who is there
section The door follows the hand
given state=Open
given state=Shut
row hand=None -> state=same
row hand=!None,Pull -> state=Open sound=Creak
row hand=Pull -> state=Shut
";

/// Each broken table is the good one with a line replaced: (line, by what, refused where, why).
fn cases() -> Vec<(usize, &'static str, usize, Problem)> {
    let fact = |name: &str| Problem::UnknownFact(name.to_owned());
    let value = |fact, word: &str| Problem::UnknownValue { fact, word: word.to_owned() };
    let words = |fact, code: &str| Problem::WrongWords { fact, code: code.to_owned() };
    let repeated = |name: &str| Problem::Repeated(name.to_owned());
    let table = || Problem::WrongTable("door".to_owned());
    let creek = Problem::UnknownWord { field: "sound", word: "Creek".to_owned() };
    vec![
        (1, "table window", 1, table()),
        (1, "", 2, table()),
        (4, "table door", 4, repeated("table")),
        (2, "fact stat: Open Shut", 2, fact("stat")),
        (2, "seen state: Open Shut", 2, fact("state")),
        (2, "fact state: Open", 2, words("state", "Open Shut")),
        (2, "fact state: Shut Open", 2, words("state", "Open Shut")),
        (2, "fact state: Open Shut Ajar", 2, words("state", "Open Shut")),
        (3, "fact state: Open Shut", 3, repeated("state")),
        (3, "", 4, Problem::UndeclaredFact("hand")),
        (4, "", 5, Problem::NoSection),
        (4, "chapter One", 4, Problem::UnknownKeyword("chapter".to_owned())),
        (6, "given hand=None", 6, Problem::Overlap(5)),
        (6, "given state=!Open,Shut", 6, Problem::MatchesNothing),
        (7, "row hand=Wave -> state=same", 7, value("hand", "Wave")),
        (7, "row hand=None, -> state=same", 7, value("hand", "")),
        (7, "row hands=None -> state=same", 7, fact("hands")),
        (7, "row hand=None hand=Push -> state=same", 7, repeated("hand")),
        (7, "row hand=None,None -> state=same", 7, repeated("None")),
        (7, "row hand -> state=same", 7, Problem::NotAnEquation("hand".to_owned())),
        (7, "row hand=None", 7, Problem::MissingArrow),
        (7, "row hand=None -> sound=Creak", 7, Problem::MissingField("state")),
        (7, "row hand=None -> state=same sound=Creek", 7, creek),
        (7, "row hand=None -> state=same state=Open", 7, repeated("state")),
        (7, "row hand=None -> stat=same", 7, Problem::UnknownField("stat".to_owned())),
        (8, "given state=Open", 8, Problem::LateGiven),
        (9, "section Nothing", 9, Problem::EmptySection(9)),
        (5, "section The hand again", 5, Problem::EmptySection(4)),
    ]
}

/// Reads the good table and every broken one.
pub(crate) fn check() -> Result<String, String> {
    let shape = door();
    let read = parse(&shape, GOOD).map_err(|refusal| format!("door.table:{refusal}"))?;
    let boxes: Vec<_> = read.rows.iter().map(|row| row.boxes.clone()).collect();
    let under = |hand: u32| vec![vec![0b01, hand], vec![0b10, hand]];
    if boxes != [under(0b001), under(0b010), under(0b100)] {
        return Err(format!("the good table was misread: {boxes:?}"));
    }
    let said: Vec<_> = read.rows.iter().map(|row| row.answer.at(&[1, 0])).collect();
    let nothing = Outcome::default();
    if said != [nothing.with(0, 1), nothing.with(0, 0).with(1, 0), nothing.with(0, 1)] {
        return Err(format!("the good table's answers were misread: {said:?}"));
    }
    let cases = cases();
    for (replaced, by, line, problem) in &cases {
        let lines = GOOD.lines().enumerate();
        let bent = lines.map(|(at, good)| if at + 1 == *replaced { by } else { good });
        let reported = parse(&shape, &bent.collect::<Vec<_>>().join("\n")).err();
        let due = Refusal { line: *line, problem: problem.clone() };
        if reported.as_ref() != Some(&due) {
            let reported =
                reported.map_or_else(|| "nothing".to_owned(), |reported| reported.to_string());
            return Err(format!(
                "line {replaced} as \"{by}\": expected: {due}; reported: {reported}"
            ));
        }
    }
    Ok(format!("table format: each of {} broken tables is refused by line", cases.len()))
}

fn door() -> Shape {
    let evaluate = |(): &()| Evaluation { outcome: Outcome::default(), broken: None };
    Machine::new("door", (), evaluate)
        .fact(Origin::Row, "state", vec!["Open", "Shut"], |(), _| ())
        .fact(Origin::Seen, "hand", vec!["None", "Push", "Pull"], |(), _| ())
        .following("state", "state", vec!["Open", "Shut"], Absent::Refused)
        .field("sound", vec!["Creak"], Absent::Nothing)
        .shape
}
