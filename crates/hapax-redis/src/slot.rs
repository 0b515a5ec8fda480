//! Which of a cluster's 16384 slots a bucket lies in: the CRC-16 (XMODEM) of its hash tag.

pub(crate) fn of_bucket(bucket: usize) -> u16 {
    crc16(format!("{bucket:02x}").as_bytes()) % 16_384
}

fn crc16(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0, |crc, byte| {
        (0..8).fold(
            crc ^ (u16::from(*byte) << 8),
            |crc, _| if crc & 0x8000 == 0 { crc << 1 } else { (crc << 1) ^ 0x1021 },
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The check value of the algorithm, and what `CLUSTER KEYSLOT` of a real server says.
    #[test]
    fn slots_are_those_of_the_servers() {
        assert_eq!(crc16(b"123456789"), 0x31c3);
        assert_eq!(of_bucket(0x00), 13_254);
        assert_eq!(of_bucket(0xff), 11_756);
    }
}
