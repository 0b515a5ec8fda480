//! How long an answer is has to be said once, and in one way.

use http::{HeaderName, HeaderValue, header};

use super::fault::Fault;

/// What the headers of an answer say about its length.
///
/// Two lengths in one head are read in two ways by two readers, and what one of them takes for surplus is the next client's answer.
#[derive(Debug, Default)]
pub(super) struct Said {
    length: Option<HeaderValue>,
    chunked: bool,
}

/// How the body of an answer is delimited.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Extent {
    Counted(u64),
    Chunked,
    UntilClosed,
}

impl Said {
    pub(super) fn hear(&mut self, name: &HeaderName, value: &HeaderValue) -> Result<(), Fault> {
        if *name == header::CONTENT_LENGTH {
            let is_number = !value.is_empty() && value.as_bytes().iter().all(u8::is_ascii_digit);
            if !is_number || self.length.is_some() {
                return Err(Fault::Head("its length is odd"));
            }
            self.length = Some(value.clone());
        } else if *name == header::TRANSFER_ENCODING {
            if self.chunked || !value.as_bytes().trim_ascii().eq_ignore_ascii_case(b"chunked") {
                return Err(Fault::Head("it is coded in a way that was not asked for"));
            }
            self.chunked = true;
        }
        Ok(())
    }

    /// The empty line after the head. Also of an answer without a body this is to be one length at most.
    pub(super) fn is_said_once(&self) -> Result<(), Fault> {
        if self.chunked && self.length.is_some() { Err(Fault::Head("it has two lengths")) } else { Ok(()) }
    }

    /// `modern`: it is HTTP/1.1.
    pub(super) fn extent(&self, modern: bool) -> Result<Extent, Fault> {
        match &self.length {
            Some(length) => {
                let number = length.to_str().ok().and_then(|digits| digits.parse().ok());
                number.map(Extent::Counted).ok_or(Fault::Head("its length is odd"))
            }
            // Chunks came with HTTP/1.1.
            None if self.chunked && !modern => Err(Fault::Head("it is coded in a way that was not asked for")),
            None if self.chunked => Ok(Extent::Chunked),
            None => Ok(Extent::UntilClosed),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_has_one_length_or_none() {
        let said = |lines: &[(HeaderName, &'static str)]| {
            let mut said = Said::default();
            for (name, value) in lines {
                said.hear(name, &HeaderValue::from_static(value))?;
            }
            said.is_said_once()?;
            said.extent(true)
        };
        let (length, coding) = (header::CONTENT_LENGTH, header::TRANSFER_ENCODING);
        assert_eq!(said(&[]).unwrap(), Extent::UntilClosed);
        assert_eq!(said(&[(length.clone(), "3")]).unwrap(), Extent::Counted(3));
        assert_eq!(said(&[(coding.clone(), "Chunked")]).unwrap(), Extent::Chunked);
        for odd in ["", "+3", "3, 3", "0x3", "3 ", "99999999999999999999"] {
            assert!(said(&[(length.clone(), odd)]).is_err(), "{odd}");
        }
        for odd in ["gzip", "gzip, chunked", "identity"] {
            assert!(said(&[(coding.clone(), odd)]).is_err(), "{odd}");
        }
        assert!(said(&[(length.clone(), "3"), (coding.clone(), "chunked")]).is_err());
        assert!(said(&[(coding.clone(), "chunked"), (length.clone(), "3")]).is_err());
        assert!(said(&[(length.clone(), "3"), (length, "3")]).is_err());
        assert!(said(&[(coding.clone(), "chunked"), (coding, "chunked")]).is_err());
    }
}
