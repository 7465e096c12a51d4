//! What a table covers: facts with their words, fields with theirs, and the rules behind them.

/// The words of a closed set, in order.
macro_rules! words {
    ($set:ident) => {
        $set::ALL.iter().map(|value| value.as_str()).collect::<Vec<_>>()
    };
}

pub(crate) use words;

/// Where a fact comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// The row says it of itself: `fact` in a table.
    Row,
    /// One observation saw it: `seen` in a table.
    Seen,
}

/// A fact and all its words, in the order of the code.
pub(crate) struct Fact {
    /// Where it comes from.
    pub(crate) origin: Origin,
    /// Its name in the table.
    pub(crate) name: &'static str,
    pub(crate) words: Vec<&'static str>,
}

impl Fact {
    /// The set of all its values, one bit each.
    pub(crate) fn everything(&self) -> u32 {
        (1 << self.words.len()) - 1
    }
}

/// What a field says that a row of the table does not mention.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Absent {
    /// It is mandatory.
    Refused,
    /// Nothing.
    Nothing,
    /// The value of the fact that it follows.
    Same,
}

/// One field of the answer.
pub(crate) struct Field {
    /// Its name in the table.
    pub(crate) name: &'static str,
    /// Its words. A field that follows a fact begins with the words of that fact.
    pub(crate) words: Vec<&'static str>,
    /// What its absence says.
    pub(crate) absent: Absent,
    /// The fact whose value `same` means.
    pub(crate) follows: Option<usize>,
}

/// An answer: eight bits per field, 0 for nothing and otherwise the index of the word plus one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Outcome(u64);

impl Outcome {
    /// The same, with one field said.
    #[must_use]
    pub(crate) const fn with(self, field: usize, word: usize) -> Self {
        let shift = 8 * field;
        Self((self.0 & !(0xff << shift)) | ((word as u64 + 1) << shift))
    }

    /// The same, with one field omitted.
    #[must_use]
    pub(crate) const fn without(self, field: usize) -> Self {
        Self(self.0 & !(0xff << (8 * field)))
    }

    /// The index of the word that a field says.
    pub(crate) fn word(self, field: usize) -> Option<usize> {
        usize::from(self.0.to_le_bytes()[field]).checked_sub(1)
    }
}

/// Facts and fields of a table: what the parser and the reports need.
pub(crate) struct Shape {
    /// The table's name.
    pub(crate) name: &'static str,
    /// The facts; a cell is one value of each, by index, in this order.
    pub(crate) facts: Vec<Fact>,
    /// The fields of the answer.
    pub(crate) fields: Vec<Field>,
}

impl Shape {
    /// How many combinations the facts of one origin have.
    pub(crate) fn cells(&self, origin: Origin) -> u64 {
        let of_origin = self.facts.iter().filter(|fact| fact.origin == origin);
        of_origin.map(|fact| fact.words.len() as u64).product()
    }

    /// The place of a fact by its name.
    pub(crate) fn fact(&self, name: &str) -> Option<usize> {
        self.facts.iter().position(|fact| fact.name == name)
    }

    /// The set of values for each fact that is complete.
    pub(crate) fn everything(&self) -> Vec<u32> {
        self.facts.iter().map(Fact::everything).collect()
    }
}

/// What the code says of one cell.
pub(crate) struct Evaluation {
    /// The answer of the rules.
    pub(crate) outcome: Outcome,
    /// A law that the answer breaks.
    pub(crate) broken: Option<&'static str>,
}

/// A shape and the code behind it.
pub(crate) struct Machine<C> {
    /// What its table covers.
    pub(crate) shape: Shape,
    /// Puts the value with this index into a cell; one for each fact.
    pub(crate) puts: Vec<fn(&mut C, usize)>,
    /// Any cell; every fact is put before it is evaluated.
    pub(crate) start: C,
    /// Evaluates the rules and the laws.
    pub(crate) evaluate: fn(&C) -> Evaluation,
}

impl<C> Machine<C> {
    /// A machine without facts and fields.
    pub(crate) fn new(name: &'static str, start: C, evaluate: fn(&C) -> Evaluation) -> Self {
        let shape = Shape { name, facts: Vec::new(), fields: Vec::new() };
        Self { shape, puts: Vec::new(), start, evaluate }
    }

    /// The same with one more fact.
    pub(crate) fn fact(
        mut self,
        origin: Origin,
        name: &'static str,
        words: Vec<&'static str>,
        put: fn(&mut C, usize),
    ) -> Self {
        self.shape.facts.push(Fact { origin, name, words });
        self.puts.push(put);
        self
    }

    /// The same with one more field, which follows no fact.
    pub(crate) fn field(
        self,
        name: &'static str,
        words: Vec<&'static str>,
        absent: Absent,
    ) -> Self {
        self.push(Field { name, words, absent, follows: None })
    }

    /// The same with one more field, for which `same` means the value of a fact.
    pub(crate) fn following(
        self,
        fact: &'static str,
        name: &'static str,
        words: Vec<&'static str>,
        absent: Absent,
    ) -> Self {
        let follows = self.shape.fact(fact);
        self.push(Field { name, words, absent, follows })
    }

    fn push(mut self, field: Field) -> Self {
        self.shape.fields.push(field);
        self
    }
}
