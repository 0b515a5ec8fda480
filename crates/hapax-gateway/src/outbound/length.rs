//! How long an answer is has to be said once, and in one way.

use http::{HeaderMap, HeaderValue, header};

use super::failure::Failure;

/// Two lengths in one head are read in two ways by two readers, and what one of them takes for surplus is the next
/// client's answer. Our own library prefers the chunks and leaves the other length in the head, so it is refused here.
pub(super) fn said_once(headers: &HeaderMap) -> Result<(), Failure> {
    let refused = |why: &str| Err(Failure::Broke(why.to_owned()));
    let mut codings = headers.get_all(header::TRANSFER_ENCODING).iter();
    let mut lengths = headers.get_all(header::CONTENT_LENGTH).iter();
    match (codings.next(), lengths.next()) {
        (None, None) => Ok(()),
        (Some(_), Some(_)) => refused("its answer has two lengths"),
        (None, Some(length)) if lengths.next().is_some() || !is_number(length) => refused("its answer's length is odd"),
        (Some(coding), None) if codings.next().is_some() || !is_chunked(coding) => {
            refused("its answer is coded in a way that was not asked for")
        }
        (None, Some(_)) | (Some(_), None) => Ok(()),
    }
}

fn is_number(value: &HeaderValue) -> bool {
    !value.is_empty() && value.as_bytes().iter().all(u8::is_ascii_digit)
}

fn is_chunked(value: &HeaderValue) -> bool {
    value.as_bytes().trim_ascii().eq_ignore_ascii_case(b"chunked")
}

#[cfg(test)]
mod tests {
    use http::HeaderName;

    use super::*;

    #[test]
    fn an_answer_has_one_length_or_none() {
        let said = |lines: &[(HeaderName, &'static str)]| {
            let headers: HeaderMap =
                lines.iter().map(|(name, value)| (name.clone(), HeaderValue::from_static(value))).collect();
            said_once(&headers).is_ok()
        };
        let (length, coding) = (header::CONTENT_LENGTH, header::TRANSFER_ENCODING);
        assert!(said(&[]) && said(&[(length.clone(), "3")]) && said(&[(coding.clone(), "Chunked")]));
        for odd in ["", "+3", "3, 3", "0x3", "3 "] {
            assert!(!said(&[(length.clone(), odd)]), "{odd}");
        }
        for odd in ["gzip", "gzip, chunked", "identity"] {
            assert!(!said(&[(coding.clone(), odd)]), "{odd}");
        }
        assert!(!said(&[(length.clone(), "3"), (coding, "chunked")]));
        let mut twice = HeaderMap::new();
        twice.append(length.clone(), HeaderValue::from_static("3"));
        twice.append(length, HeaderValue::from_static("3"));
        assert!(said_once(&twice).is_err());
    }
}
