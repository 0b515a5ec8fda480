//! The head of an answer.

use std::mem::MaybeUninit;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Response, StatusCode, Version, header};
use httparse::{Error, Header, ParserConfig, Status};

use super::{
    fault::Fault,
    length::{Extent, Said},
};
use crate::grammar::names;

/// As many headers as nearly no answer has. For more there is a longer way.
const FEW: usize = 64;

/// A head, and what it says about what comes after it.
#[derive(Debug)]
pub(super) struct Head {
    pub(super) response: Response<()>,
    said: Said,
    /// Another request may follow.
    pub(super) keeps: bool,
}

impl Head {
    /// All lines of it, with the empty one at their end. Its values share these bytes.
    pub(super) fn read(bytes: &Bytes, most_headers: usize) -> Result<Self, Fault> {
        let mut few = [const { MaybeUninit::uninit() }; FEW];
        let room = few.len().min(most_headers);
        match Self::read_within(bytes, few.get_mut(..room).unwrap_or_default()) {
            Err(Refused::TooMany) if most_headers > FEW => {
                Self::read_within(bytes, &mut vec![MaybeUninit::uninit(); most_headers])
            }
            read => read,
        }
        .map_err(|refused| match refused {
            Refused::TooMany => Fault::Head("it has too many headers"),
            Refused::For(fault) => fault,
        })
    }

    fn read_within<'b>(bytes: &'b Bytes, lines: &mut [MaybeUninit<Header<'b>>]) -> Result<Self, Refused> {
        let malformed = || Refused::For(Fault::Head("it is malformed"));
        let mut found = httparse::Response::new(&mut []);
        match ParserConfig::default().parse_response_with_uninit_headers(&mut found, bytes, lines) {
            Ok(Status::Complete(length)) if length == bytes.len() => {}
            Err(Error::TooManyHeaders) => return Err(Refused::TooMany),
            Ok(_) | Err(_) => return Err(malformed()),
        }
        let code = found.code.ok_or_else(malformed)?;
        let modern = found.version == Some(1);
        let (mut said, mut closes) = (Said::default(), false);
        let mut headers = HeaderMap::with_capacity(found.headers.len());
        for line in &*found.headers {
            let name = HeaderName::from_bytes(line.name.as_bytes()).map_err(|_| malformed())?;
            let value = HeaderValue::from_maybe_shared(bytes.slice_ref(line.value)).map_err(|_| malformed())?;
            said.hear(&name, &value)?;
            closes |= name == header::CONNECTION && names(value.as_bytes(), b"close");
            headers.try_append(name, value).map_err(|_| Refused::TooMany)?;
        }
        let mut response = Response::new(());
        *response.status_mut() = StatusCode::from_u16(code).map_err(|_| malformed())?;
        *response.version_mut() = if modern { Version::HTTP_11 } else { Version::HTTP_10 };
        *response.headers_mut() = headers;
        Ok(Self { response, said, keeps: modern && !closes })
    }

    /// The answer itself comes after it.
    pub(super) fn is_interim(&self) -> bool {
        self.response.status().is_informational() && !self.ends_http()
    }

    /// What comes after it is no HTTP.
    fn ends_http(&self) -> bool {
        self.response.status() == StatusCode::SWITCHING_PROTOCOLS
    }

    /// How the body after it is delimited, given what was asked.
    pub(super) fn extent(&mut self, method: &Method) -> Result<Extent, Fault> {
        self.said.is_said_once()?;
        let status = self.response.status();
        let tunnel = *method == Method::CONNECT && status.is_success();
        self.keeps &= !self.ends_http() && !tunnel;
        let bodiless = [StatusCode::NO_CONTENT, StatusCode::NOT_MODIFIED].contains(&status);
        if bodiless || self.ends_http() || tunnel || *method == Method::HEAD {
            return Ok(Extent::Counted(0));
        }
        self.said.extent(self.response.version() == Version::HTTP_11)
    }
}

enum Refused {
    TooMany,
    For(Fault),
}

impl From<Fault> for Refused {
    fn from(fault: Fault) -> Self {
        Self::For(fault)
    }
}
