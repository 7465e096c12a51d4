//! The reader of the table format.

use crate::refusal::{Problem, Refusal};
use crate::shape::{Absent, Origin, Outcome, Shape};

/// A table as read.
#[derive(Clone)]
pub(crate) struct Table {
    /// Its rows, in order.
    pub(crate) rows: Vec<Row>,
}

/// One row.
#[derive(Clone)]
pub(crate) struct Row {
    pub(crate) line: usize,
    /// What it says, blanks squeezed.
    pub(crate) text: String,
    /// The boxes of cells that it matches, one for each `given` under which there are any.
    pub(crate) boxes: Vec<Vec<u32>>,
    pub(crate) answer: Answer,
}

/// The right side of a row.
#[derive(Clone)]
pub(crate) struct Answer {
    /// The fields that are the same in each cell.
    pub(crate) fixed: Outcome,
    /// The fields that have the value of a fact: (field, fact).
    pub(crate) same: Vec<(usize, usize)>,
}

impl Answer {
    /// What the row says of one cell.
    pub(crate) fn at(&self, cell: &[usize]) -> Outcome {
        let same = self.same.iter();
        same.fold(self.fixed, |outcome, &(field, fact)| outcome.with(field, cell[fact]))
    }
}

/// Reads a table of the given shape.
pub(crate) fn parse(shape: &Shape, text: &str) -> Result<Table, Refusal> {
    let mut reader = Reader {
        shape,
        named: false,
        declared: vec![false; shape.facts.len()],
        section: None,
        rows: Vec::new(),
    };
    let mut last = 0;
    for (index, content) in text.lines().enumerate() {
        last = index + 1;
        reader.line(last, content).map_err(|problem| Refusal { line: last, problem })?;
    }
    reader.finish(last)
}

/// The section being read.
struct Section {
    line: usize,
    given: Vec<(usize, Vec<u32>)>,
    rows: usize,
}

struct Reader<'a> {
    shape: &'a Shape,
    named: bool,
    declared: Vec<bool>,
    section: Option<Section>,
    rows: Vec<Row>,
}

impl Reader<'_> {
    fn line(&mut self, line: usize, content: &str) -> Result<(), Problem> {
        let content = content.split('#').next().unwrap_or_default().trim();
        if content.is_empty() {
            return Ok(());
        }
        let (keyword, rest) = content.split_once(char::is_whitespace).unwrap_or((content, ""));
        let rest = rest.trim();
        if !self.named && keyword != "table" {
            return Err(Problem::WrongTable(self.shape.name.to_owned()));
        }
        match keyword {
            "table" => self.table(rest),
            "fact" => self.declaration(Origin::Row, rest),
            "seen" => self.declaration(Origin::Seen, rest),
            "section" => self.begin(line),
            "given" => self.given(line, rest),
            "row" => self.row(line, rest),
            other => Err(Problem::UnknownKeyword(other.to_owned())),
        }
    }

    fn table(&mut self, name: &str) -> Result<(), Problem> {
        if self.named {
            return Err(Problem::Repeated("table".to_owned()));
        }
        if name != self.shape.name {
            return Err(Problem::WrongTable(self.shape.name.to_owned()));
        }
        self.named = true;
        Ok(())
    }

    fn declaration(&mut self, origin: Origin, rest: &str) -> Result<(), Problem> {
        let (name, words) = rest.split_once(':').unwrap_or((rest, ""));
        let index = self.shape.fact(name).filter(|&at| self.shape.facts[at].origin == origin);
        let Some(index) = index else {
            return Err(Problem::UnknownFact(name.to_owned()));
        };
        let fact = &self.shape.facts[index];
        if std::mem::replace(&mut self.declared[index], true) {
            return Err(Problem::Repeated(name.to_owned()));
        }
        if !words.split_whitespace().eq(fact.words.iter().copied()) {
            return Err(Problem::WrongWords { fact: fact.name, code: fact.words.join(" ") });
        }
        Ok(())
    }

    fn begin(&mut self, line: usize) -> Result<(), Problem> {
        self.all_declared()?;
        self.has_rows()?;
        self.section = Some(Section { line, given: Vec::new(), rows: 0 });
        Ok(())
    }

    fn given(&mut self, line: usize, rest: &str) -> Result<(), Problem> {
        let masks = self.conditions(rest)?;
        let section = self.section.as_mut().ok_or(Problem::NoSection)?;
        if section.rows > 0 {
            return Err(Problem::LateGiven);
        }
        let shared = section.given.iter().find(|(_, other)| !is_empty(&both(&masks, other)));
        if let Some(&(other, _)) = shared {
            return Err(Problem::Overlap(other));
        }
        section.given.push((line, masks));
        Ok(())
    }

    fn row(&mut self, line: usize, rest: &str) -> Result<(), Problem> {
        let mut sides = rest.split("->");
        let (Some(left), Some(right), None) = (sides.next(), sides.next(), sides.next()) else {
            return Err(Problem::MissingArrow);
        };
        let masks = self.conditions(left)?;
        let answer = self.answer(right)?;
        let section = self.section.as_mut().ok_or(Problem::NoSection)?;
        section.rows += 1;
        let mut boxes: Vec<_> =
            section.given.iter().map(|(_, given)| both(&masks, given)).collect();
        if section.given.is_empty() {
            boxes.push(masks);
        }
        boxes.retain(|masks| !is_empty(masks));
        if boxes.is_empty() {
            return Err(Problem::MatchesNothing);
        }
        let text = rest.split_whitespace().collect::<Vec<_>>().join(" ");
        self.rows.push(Row { line, text, boxes, answer });
        Ok(())
    }

    /// `fact=a,b` and `fact=!a,b`, each fact at most once, as a set of values for each fact.
    fn conditions(&self, text: &str) -> Result<Vec<u32>, Problem> {
        let mut masks = self.shape.everything();
        let mut said = vec![false; masks.len()];
        for word in text.split_whitespace() {
            let (name, values) = equation(word)?;
            let index =
                self.shape.fact(name).ok_or_else(|| Problem::UnknownFact(name.to_owned()))?;
            if std::mem::replace(&mut said[index], true) {
                return Err(Problem::Repeated(name.to_owned()));
            }
            let mask = self.values(index, values.strip_prefix('!').unwrap_or(values))?;
            masks[index] = if values.starts_with('!') { masks[index] & !mask } else { mask };
        }
        if is_empty(&masks) { Err(Problem::MatchesNothing) } else { Ok(masks) }
    }

    fn values(&self, fact: usize, values: &str) -> Result<u32, Problem> {
        let fact = &self.shape.facts[fact];
        let mut mask = 0;
        for word in values.split(',') {
            let Some(value) = fact.words.iter().position(|known| *known == word) else {
                return Err(Problem::UnknownValue { fact: fact.name, word: word.to_owned() });
            };
            if mask & (1 << value) != 0 {
                return Err(Problem::Repeated(word.to_owned()));
            }
            mask |= 1 << value;
        }
        Ok(mask)
    }

    fn answer(&self, text: &str) -> Result<Answer, Problem> {
        let mut said: Vec<Option<&str>> = vec![None; self.shape.fields.len()];
        for word in text.split_whitespace() {
            let (name, value) = equation(word)?;
            let index = self.shape.fields.iter().position(|field| field.name == name);
            let index = index.ok_or_else(|| Problem::UnknownField(name.to_owned()))?;
            if said[index].replace(value).is_some() {
                return Err(Problem::Repeated(name.to_owned()));
            }
        }
        let mut answer = Answer { fixed: Outcome::default(), same: Vec::new() };
        for (index, (field, word)) in self.shape.fields.iter().zip(said).enumerate() {
            match (word, field.follows, field.absent) {
                (Some("same"), Some(fact), _) | (None, Some(fact), Absent::Same) => {
                    answer.same.push((index, fact));
                }
                (Some(word), _, _) => {
                    let known = field.words.iter().position(|known| *known == word);
                    let known = known.ok_or_else(|| Problem::UnknownWord {
                        field: field.name,
                        word: word.to_owned(),
                    })?;
                    answer.fixed = answer.fixed.with(index, known);
                }
                (None, _, Absent::Nothing) => {}
                (None, _, Absent::Refused | Absent::Same) => {
                    return Err(Problem::MissingField(field.name));
                }
            }
        }
        Ok(answer)
    }

    fn all_declared(&self) -> Result<(), Problem> {
        let missing = self.declared.iter().position(|declared| !declared);
        missing.map_or(Ok(()), |at| Err(Problem::UndeclaredFact(self.shape.facts[at].name)))
    }

    fn has_rows(&self) -> Result<(), Problem> {
        match &self.section {
            Some(Section { line, rows: 0, .. }) => Err(Problem::EmptySection(*line)),
            Some(_) | None => Ok(()),
        }
    }

    fn finish(self, line: usize) -> Result<Table, Refusal> {
        if !self.named {
            let problem = Problem::WrongTable(self.shape.name.to_owned());
            return Err(Refusal { line, problem });
        }
        self.all_declared().map_err(|problem| Refusal { line, problem })?;
        self.has_rows().map_err(|problem| Refusal { line, problem })?;
        if self.rows.is_empty() {
            return Err(Refusal { line, problem: Problem::NoSection });
        }
        Ok(Table { rows: self.rows })
    }
}

fn equation(word: &str) -> Result<(&str, &str), Problem> {
    word.split_once('=').ok_or_else(|| Problem::NotAnEquation(word.to_owned()))
}

fn both(one: &[u32], other: &[u32]) -> Vec<u32> {
    one.iter().zip(other).map(|(one, other)| one & other).collect()
}

fn is_empty(masks: &[u32]) -> bool {
    masks.contains(&0)
}
