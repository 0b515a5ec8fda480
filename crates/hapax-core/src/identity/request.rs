use std::borrow::Cow;

use super::canonical;
use super::fingerprint::{Fingerprint, Scheme};
use super::frame::Sink;
use super::media::Media;
use super::multipart;
use super::printer::{Digester, Printer};
use super::selection::Selection;

/// The fingerprint of an HTTP request: method, endpoint, path parameters, query, content type and body.
///
/// Up to two digests: the bytes as they came, and the body in its normal form (canonical JSON, or multipart without
/// its boundary). Equal bytes match by the first; a retry that was serialised anew matches by the second. A body that came in
/// canonical form has only the second, which is then one of its bytes as well.
#[derive(Clone, Debug)]
pub struct RequestPrint<'a> {
    method: &'a str,
    endpoint: &'a str,
    path: Vec<(&'a str, &'a str)>,
    query: Cow<'a, str>,
    content_type: Option<&'a str>,
    body: &'a [u8],
    selection: Option<&'a Selection>,
}

impl<'a> RequestPrint<'a> {
    /// Method and endpoint, the latter as the router names it (`/v1/runs/{id}`).
    #[must_use]
    pub const fn new(method: &'a str, endpoint: &'a str) -> Self {
        let query = Cow::Borrowed("");
        Self { method, endpoint, path: Vec::new(), query, content_type: None, body: &[], selection: None }
    }

    /// A path parameter; their order does not matter.
    #[must_use]
    pub fn path_parameter(mut self, name: &'a str, value: &'a str) -> Self {
        self.path.push((name, value));
        self
    }

    /// The query as it came, without the question mark. Its order may mean something, so it is kept.
    #[must_use]
    pub fn query(mut self, query: &'a str) -> Self {
        self.query = Cow::Borrowed(query);
        self
    }

    /// The query without some parameters: where the key itself may travel in it, it is not payload.
    #[must_use]
    pub fn query_without(mut self, query: &'a str, names: &[&str]) -> Self {
        let kept = query.split('&').filter(|pair| {
            let name = pair.split_once('=').map_or(*pair, |(name, _)| name);
            !names.contains(&name)
        });
        self.query = Cow::Owned(kept.collect::<Vec<_>>().join("&"));
        self
    }

    /// The `Content-Type`, which says how the body is to be read.
    #[must_use]
    pub const fn content_type(mut self, content_type: &'a str) -> Self {
        self.content_type = Some(content_type);
        self
    }

    /// The body, after server-side overrides.
    #[must_use]
    pub const fn body(mut self, body: &'a [u8]) -> Self {
        self.body = body;
        self
    }

    /// Compares only a part of a JSON body. Then the raw bytes, which hold the rest too, are not compared at all; a body
    /// that has no canonical form is compared whole.
    #[must_use]
    pub const fn selection(mut self, selection: &'a Selection) -> Self {
        self.selection = Some(selection);
        self
    }

    /// Takes the fingerprint.
    #[must_use]
    pub fn print(&self, printer: &Printer) -> Fingerprint {
        self.whole(None, printer)
    }

    /// The digest that costs least: of the bytes as they came. By it a retry that was sent as it was before is recognised;
    /// what is not may still match by the [`RequestPrint::whole`] print. `None` where the bytes are not compared.
    ///
    /// The print that it is compared with has the schemes `known` (0 is none). Without that of the bytes, it was taken of a body in
    /// canonical form, and the same bytes have the same digest as such.
    #[must_use]
    pub fn as_sent(&self, known: &[Scheme], printer: &Printer) -> Option<Fingerprint> {
        let media = self.content_type.and_then(Media::parse).filter(Media::is_json);
        let has = |scheme: Scheme| known.contains(&printer.scheme(scheme));
        match media {
            Some(_) if self.selected().is_some() => None,
            Some(media) if has(Scheme::CANONICAL_V1) && !has(Scheme::RAW_V1) => {
                Some(self.canonical_print(printer, &media, self.body))
            }
            Some(_) | None => Some(self.raw_print(printer)),
        }
    }

    /// The fingerprint, where [`RequestPrint::as_sent`] may have been taken before.
    #[must_use]
    pub fn whole(&self, as_sent: Option<Fingerprint>, printer: &Printer) -> Fingerprint {
        let media = self.content_type.and_then(Media::parse);
        let is_raw = |print: &Fingerprint| print.digests().any(|(scheme, _)| scheme == printer.scheme(Scheme::RAW_V1));
        let raw = || as_sent.filter(is_raw).unwrap_or_else(|| self.raw_print(printer));
        let Some(media) = &media else { return raw() };
        if media.is_json() {
            return self.print_json(printer, media, raw);
        }
        let raw = raw();
        let Some(boundary) = media.boundary() else { return raw };
        let mut parts = printer.digester();
        self.head(&mut parts, "hapax.request.parts.v1", Some(&media.normal()));
        match multipart::write(&mut parts, self.body, boundary) {
            Some(()) => raw.with(printer.scheme(Scheme::PARTS_V1), parts.finish()),
            None => raw,
        }
    }

    fn print_json(&self, printer: &Printer, media: &Media, raw: impl FnOnce() -> Fingerprint) -> Fingerprint {
        let Some(selection) = self.selected() else {
            return match canonical::to_vec(self.body) {
                // These are its bytes as well: a second digest would say nothing more.
                Some(text) if text == self.body => self.canonical_print(printer, media, &text),
                Some(text) => printer.add(raw(), Scheme::CANONICAL_V1, |hash| self.canonical(hash, media, &text)),
                None => raw(),
            };
        };
        match canonical::selected_to_vec(self.body, selection) {
            Some(text) => printer.print(Scheme::CANONICAL_V1, |hash| {
                self.normal(hash, "hapax.request.selected.v1", media, &text);
            }),
            None => raw(),
        }
    }

    fn canonical_print(&self, printer: &Printer, media: &Media, text: &[u8]) -> Fingerprint {
        printer.print(Scheme::CANONICAL_V1, |hash| self.canonical(hash, media, text))
    }

    fn canonical(&self, hash: &mut Digester, media: &Media, text: &[u8]) {
        self.normal(hash, "hapax.request.canonical.v1", media, text);
    }

    fn normal(&self, hash: &mut Digester, domain: &str, media: &Media, text: &[u8]) {
        self.head(hash, domain, Some(&media.normal()));
        hash.frame(text);
    }

    /// What of a JSON body is compared, where that is not all of it.
    fn selected(&self) -> Option<&'a Selection> {
        self.selection.filter(|selection| !selection.is_all())
    }

    fn raw_print(&self, printer: &Printer) -> Fingerprint {
        printer.print(Scheme::RAW_V1, |hash| self.raw(hash))
    }

    fn raw(&self, sink: &mut impl Sink) {
        self.head(sink, "hapax.request.raw.v1", self.content_type);
        sink.frame(self.body);
    }

    fn head(&self, sink: &mut impl Sink, domain: &str, content_type: Option<&str>) {
        let mut path = self.path.clone();
        path.sort_unstable();
        sink.frame(domain.as_bytes());
        sink.frame(self.method.as_bytes());
        sink.frame(self.endpoint.as_bytes());
        sink.number(path.len() as u64);
        for (name, value) in path {
            sink.frame(name.as_bytes());
            sink.frame(value.as_bytes());
        }
        sink.frame(self.query.as_bytes());
        sink.pour(&[u8::from(content_type.is_some())]);
        sink.frame(content_type.unwrap_or_default().as_bytes());
    }
}
