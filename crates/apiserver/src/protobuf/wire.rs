//! The protobuf wire format.

use super::Unreadable;

/// The payload of a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Payload<'a> {
    Number(i64),
    Bytes(&'a [u8]),
    /// A fixed-width number; no supported field is one.
    Fixed,
}

/// Iterates over the fields of a message, up to the first error.
pub(super) struct Fields<'a> {
    rest: &'a [u8],
}

impl<'a> Fields<'a> {
    pub(super) fn of(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    fn field(&mut self) -> Result<(u64, Payload<'a>), Unreadable> {
        let tag = self.varint()?;
        let payload = match tag & 7 {
            0 => Payload::Number(self.varint()?.cast_signed()),
            1 => self.take(8).map(|_| Payload::Fixed)?,
            2 => {
                let length = self.varint()?;
                let length = usize::try_from(length).map_err(|_| Unreadable::Broken)?;
                Payload::Bytes(self.take(length)?)
            }
            5 => self.take(4).map(|_| Payload::Fixed)?,
            _ => return Err(Unreadable::Broken),
        };
        Ok((tag >> 3, payload))
    }

    fn varint(&mut self) -> Result<u64, Unreadable> {
        let mut number = 0_u64;
        for shift in (0..64).step_by(7) {
            let byte = *self.take(1)?.first().ok_or(Unreadable::Broken)?;
            number |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Ok(number);
            }
        }
        Err(Unreadable::Broken)
    }

    fn take(&mut self, length: usize) -> Result<&'a [u8], Unreadable> {
        let (taken, rest) = self.rest.split_at_checked(length).ok_or(Unreadable::Broken)?;
        self.rest = rest;
        Ok(taken)
    }
}

impl<'a> Iterator for Fields<'a> {
    type Item = Result<(u64, Payload<'a>), Unreadable>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let field = self.field();
        if field.is_err() {
            self.rest = &[];
        }
        Some(field)
    }
}

impl<'a> Payload<'a> {
    pub(super) fn bytes(self) -> Result<&'a [u8], Unreadable> {
        match self {
            Self::Bytes(bytes) => Ok(bytes),
            Self::Number(_) | Self::Fixed => Err(Unreadable::Broken),
        }
    }

    pub(super) fn text(self) -> Result<&'a str, Unreadable> {
        std::str::from_utf8(self.bytes()?).map_err(|_| Unreadable::Broken)
    }

    pub(super) fn number(self) -> Result<i64, Unreadable> {
        match self {
            Self::Number(number) => Ok(number),
            Self::Bytes(_) | Self::Fixed => Err(Unreadable::Broken),
        }
    }
}
