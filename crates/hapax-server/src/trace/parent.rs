//! `traceparent`: the trace that a caller is in (W3C Trace Context).

use http::HeaderMap;

/// What a caller says about its trace.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Parent {
    pub(super) trace: u128,
    pub(super) span: u64,
    /// Whether the caller records it; we do as it does.
    pub(super) sampled: bool,
}

impl Parent {
    /// `None`: none was sent, or none that can be read, which counts as none.
    pub(super) fn of(headers: &HeaderMap) -> Option<Self> {
        let text = headers.get("traceparent")?.to_str().ok()?;
        let mut parts = text.split('-');
        let (version, trace, span, flags) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
        let hex = |text: &str, length: usize| {
            text.len() == length && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
        };
        // A later version may have more parts, the present one not.
        let whole = hex(version, 2) && version != "ff" && (version != "00" || parts.next().is_none());
        if !(whole && hex(trace, 32) && hex(span, 16) && hex(flags, 2)) {
            return None;
        }
        let (trace, span) = (u128::from_str_radix(trace, 16).ok()?, u64::from_str_radix(span, 16).ok()?);
        let sampled = u8::from_str_radix(flags, 16).ok()? & 1 == 1;
        (trace != 0 && span != 0).then_some(Self { trace, span, sampled })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_read_is_no_parent_and_no_error() {
        let of = |text: &str| {
            let mut headers = HeaderMap::new();
            headers.insert("traceparent", text.parse().unwrap());
            Parent::of(&headers)
        };
        let good = format!("00-{}-{}-01", "0a".repeat(16), "0b".repeat(8));
        assert_eq!(of(&good).map(|parent| (parent.span, parent.sampled)), Some((0x0b0b_0b0b_0b0b_0b0b, true)));
        assert!(!of(&good.replace("-01", "-00")).unwrap().sampled);
        for bad in [
            "",
            "00",
            &good.replace("00-", "ff-"),
            &good.replace("0a", "0A"),
            &good.replace("0a", "00"),
            &format!("{good}-more"),
            &good.replace("0b", "0"),
        ] {
            assert_eq!(of(bad), None, "{bad}");
        }
    }
}
