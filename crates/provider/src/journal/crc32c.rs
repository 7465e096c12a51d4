//! CRC-32C (Castagnoli).

const TABLE: [u32; 256] = table();

pub(super) fn crc32c(bytes: &[u8]) -> u32 {
    let sum = bytes.iter().fold(u32::MAX, |sum, byte| {
        let [low, ..] = sum.to_le_bytes();
        (sum >> 8) ^ TABLE[usize::from(low ^ byte)]
    });
    !sum
}

const fn table() -> [u32; 256] {
    let mut table = [0; 256];
    let mut index = 0;
    let mut start: u32 = 0;
    while index < 256 {
        let mut sum = start;
        let mut bit = 0;
        while bit < 8 {
            sum = if sum & 1 == 1 { (sum >> 1) ^ 0x82f6_3b78 } else { sum >> 1 };
            bit += 1;
        }
        table[index] = sum;
        index += 1;
        start += 1;
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checksum_is_crc_32c() {
        assert_eq!(crc32c(b"123456789"), 0xe306_9283);
        assert_eq!(crc32c(b""), 0);
    }
}
