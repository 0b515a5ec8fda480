use bytes::Bytes;
use hapax_store::Cursor;

/// A place in a scan: the last entry that was handed out.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Place {
    pub(crate) score: u64,
    pub(crate) member: Vec<u8>,
}

impl Place {
    pub(crate) fn cursor(&self) -> Cursor {
        let mut bytes = self.score.to_be_bytes().to_vec();
        bytes.extend_from_slice(&self.member);
        Cursor(Bytes::from(bytes))
    }

    pub(crate) fn parse(cursor: &Cursor) -> Option<Self> {
        let (score, member) = cursor.0.split_first_chunk::<8>()?;
        (member.len() == 32 || member.len() == 40)
            .then(|| Self { score: u64::from_be_bytes(*score), member: member.to_vec() })
    }
}
