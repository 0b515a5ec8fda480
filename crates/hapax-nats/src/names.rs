use data_encoding::BASE64URL_NOPAD;
use hapax_core::Id;

/// Where things lie in one bucket.
#[derive(Clone, Debug)]
pub(crate) struct Names {
    pub(crate) bucket: String,
    pub(crate) records: String,
    pub(crate) bodies: String,
    record: String,
    body: String,
}

impl Names {
    pub(crate) fn new(bucket: &str) -> Self {
        Self {
            records: format!("KV_{bucket}"),
            bodies: format!("KV_{bucket}-bodies"),
            record: format!("$KV.{bucket}.r."),
            body: format!("$KV.{bucket}-bodies."),
            bucket: bucket.to_owned(),
        }
    }

    pub(crate) fn record(&self, id: &Id) -> String {
        let mut subject = self.record.clone();
        BASE64URL_NOPAD.encode_append(&id.0, &mut subject);
        subject
    }

    /// `None` for what is no record.
    pub(crate) fn id(&self, subject: &str) -> Option<Id> {
        let text = subject.strip_prefix(&self.record)?;
        BASE64URL_NOPAD.decode(text.as_bytes()).ok()?.try_into().ok().map(Id)
    }

    pub(crate) fn forgotten(&self) -> String {
        format!("$KV.{}.forgotten", self.bucket)
    }

    pub(crate) fn all_records(&self) -> String {
        format!("$KV.{}.>", self.bucket)
    }

    pub(crate) fn all_bodies(&self) -> String {
        format!("$KV.{}-bodies.>", self.bucket)
    }

    pub(crate) fn clock(&self, slot: u8) -> String {
        format!("{}clock.{slot}", self.body)
    }

    pub(crate) fn piece(&self, name: &[u8; 32], piece: &str) -> String {
        let mut subject = self.body.clone();
        BASE64URL_NOPAD.encode_append(name, &mut subject);
        subject.push('.');
        subject.push_str(piece);
        subject
    }

    /// Every head of this kind.
    pub(crate) fn heads(&self, kind: &str) -> String {
        format!("{}*.{kind}", self.body)
    }

    pub(crate) fn piece_name(&self, subject: &str) -> Option<[u8; 32]> {
        let text = subject.strip_prefix(&self.body)?.split('.').next()?;
        BASE64URL_NOPAD.decode(text.as_bytes()).ok()?.try_into().ok()
    }
}
