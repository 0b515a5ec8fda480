//! Sets of addresses, such as `10.0.0.0/8`.

use std::net::IpAddr;

#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Networks(Vec<(IpAddr, u32)>);

impl Networks {
    /// Reads addresses and networks; says which text is none.
    pub fn parse(texts: &[&str]) -> Result<Self, String> {
        texts.iter().map(|text| network(text)).collect::<Result<_, _>>().map(Self)
    }

    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    #[must_use]
    pub fn contain(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        self.0.iter().any(|(network, bits)| match (address, network) {
            (IpAddr::V4(address), IpAddr::V4(network)) => {
                let shift = 32 - bits;
                address.to_bits().checked_shr(shift).unwrap_or(0) == network.to_bits().checked_shr(shift).unwrap_or(0)
            }
            (IpAddr::V6(address), IpAddr::V6(network)) => {
                let shift = 128 - bits;
                address.to_bits().checked_shr(shift).unwrap_or(0) == network.to_bits().checked_shr(shift).unwrap_or(0)
            }
            (IpAddr::V4(_), IpAddr::V6(_)) | (IpAddr::V6(_), IpAddr::V4(_)) => false,
        })
    }
}

fn network(text: &str) -> Result<(IpAddr, u32), String> {
    let refused = || format!("`{text}` is no address or network; write it as 10.0.0.0/8 or ::1");
    let (address, bits) = match text.split_once('/') {
        Some((address, bits)) => (address, Some(bits.parse::<u32>().map_err(|_| refused())?)),
        None => (text, None),
    };
    let address: IpAddr = address.parse().map_err(|_| refused())?;
    let most = if address.is_ipv4() { 32 } else { 128 };
    let bits = bits.unwrap_or(most);
    if bits > most { Err(refused()) } else { Ok((address, bits)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_in_or_out() {
        let networks = Networks::parse(&["10.0.0.0/8", "192.0.2.1", "2001:db8::/32", "0.0.0.0/32"]).unwrap();
        for (address, inside) in [
            ("10.255.1.1", true),
            ("11.0.0.1", false),
            ("::ffff:10.0.0.1", true),
            ("192.0.2.1", true),
            ("192.0.2.2", false),
            ("2001:db8:1::1", true),
            ("2001:db9::1", false),
        ] {
            assert_eq!(networks.contain(address.parse().unwrap()), inside, "{address}");
        }
        assert!(Networks::parse(&["0.0.0.0/0"]).unwrap().contain("8.8.8.8".parse().unwrap()));
        for text in ["", "10.0.0.0/33", "10.0.0/8", "a", "::/129", "10.0.0.0/-1"] {
            assert!(Networks::parse(&[text]).is_err(), "{text}");
        }
    }
}
