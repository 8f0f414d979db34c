//! Whose request it is when proxies stand in between.

use std::net::{IpAddr, SocketAddr};

use http::HeaderMap;

use crate::options::OptionsError;

const FORWARDED_FOR: &str = "x-forwarded-for";

/// The proxies that are believed.
#[derive(Debug, Default)]
pub struct TrustedProxies(Vec<Network>);

#[derive(Debug)]
struct Network {
    address: u128,
    mask: u128,
}

impl TrustedProxies {
    pub fn new(texts: &[String]) -> Result<Self, OptionsError> {
        let networks = texts.iter().map(|text| {
            Network::read(text).ok_or_else(|| {
                let rule = format!("has «{text}», which is no address and no network such as 10.0.0.0/8");
                OptionsError::new("trusted_proxies", rule)
            })
        });
        networks.collect::<Result<_, _>>().map(Self)
    }

    /// The address that a request comes from: the peer, or, when the peer is a proxy of ours, the nearest address in
    /// `X-Forwarded-For` that is not. Everything further left was written by somebody unknown.
    pub fn client(&self, peer: IpAddr, headers: &HeaderMap) -> IpAddr {
        if self.0.is_empty() || !self.trusts(peer) {
            return peer;
        }
        let mut client = peer;
        let lines = headers.get_all(FORWARDED_FOR).iter().collect::<Vec<_>>().into_iter().rev();
        for hop in lines.flat_map(|line| line.as_bytes().rsplit(|byte| *byte == b',')) {
            // What can't be read was written by somebody unknown, and so was everything before it.
            let Some(address) = std::str::from_utf8(hop).ok().and_then(|hop| address_of(hop.trim())) else {
                return client;
            };
            client = address;
            if !self.trusts(address) {
                return client;
            }
        }
        client
    }

    fn trusts(&self, address: IpAddr) -> bool {
        let bits = bits(address);
        self.0.iter().any(|network| bits & network.mask == network.address)
    }
}

/// Some proxies write the port, too.
fn address_of(hop: &str) -> Option<IpAddr> {
    hop.parse().ok().or_else(|| hop.parse::<SocketAddr>().ok().map(|socket| socket.ip()))
}

/// IPv4 as it is mapped into IPv6, so that there is one kind of number.
fn bits(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(v4) => v4.to_ipv6_mapped().to_bits(),
        IpAddr::V6(v6) => v6.to_bits(),
    }
}

impl Network {
    fn read(text: &str) -> Option<Self> {
        let (address, length) = match text.trim().split_once('/') {
            Some((address, length)) => (address, Some(length.parse::<u32>().ok()?)),
            None => (text.trim(), None),
        };
        let address: IpAddr = address.parse().ok()?;
        let (width, offset) = if address.is_ipv4() { (32, 96) } else { (128, 0) };
        let length = length.unwrap_or(width);
        if length > width {
            return None;
        }
        let mask = u128::MAX.checked_shl(128 - (length + offset)).unwrap_or(0);
        Some(Self { address: bits(address) & mask, mask })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client(proxies: &[&str], peer: &str, forwarded: &[&'static str]) -> String {
        let proxies: Vec<String> = proxies.iter().map(|&p| p.to_owned()).collect();
        let mut headers = HeaderMap::new();
        for line in forwarded {
            headers.append(FORWARDED_FOR, http::HeaderValue::from_bytes(line.as_bytes()).unwrap());
        }
        TrustedProxies::new(&proxies).unwrap().client(peer.parse().unwrap(), &headers).to_string()
    }

    #[test]
    fn a_stranger_is_not_believed() {
        assert_eq!(client(&[], "9.9.9.9", &["1.2.3.4"]), "9.9.9.9");
        assert_eq!(client(&["10.0.0.0/8"], "9.9.9.9", &["1.2.3.4"]), "9.9.9.9");
    }

    #[test]
    fn a_proxy_names_the_nearest_stranger() {
        assert_eq!(client(&["10.0.0.0/8"], "10.1.1.1", &["1.2.3.4"]), "1.2.3.4");
        assert_eq!(client(&["10.0.0.0/8"], "10.1.1.1", &["6.6.6.6, 1.2.3.4, 10.2.2.2"]), "1.2.3.4");
        assert_eq!(client(&["10.0.0.0/8"], "10.1.1.1", &["6.6.6.6", "1.2.3.4"]), "1.2.3.4");
        assert_eq!(client(&["10.0.0.0/8"], "10.1.1.1", &["6.6.6.6, junk"]), "10.1.1.1");
        assert_eq!(client(&["10.0.0.0/8"], "10.1.1.1", &["é, 1.2.3.4"]), "1.2.3.4");
        assert_eq!(client(&["10.0.0.0/8"], "10.1.1.1", &["6.6.6.6", "é, 1.2.3.4"]), "1.2.3.4");
        assert_eq!(client(&["10.0.0.0/8"], "10.1.1.1", &["6.6.6.6", "é"]), "10.1.1.1");
        assert_eq!(client(&["10.0.0.0/8"], "10.1.1.1", &["1.2.3.4:567"]), "1.2.3.4");
        assert_eq!(client(&["10.0.0.0/8"], "10.1.1.1", &["[2001:db8::7]:567"]), "2001:db8::7");
        assert_eq!(client(&["::1", "10.0.0.1"], "::1", &["2001:db8::7"]), "2001:db8::7");
        assert_eq!(client(&["10.0.0.1"], "::ffff:10.0.0.1", &["1.2.3.4"]), "1.2.3.4");
    }

    #[test]
    fn a_network_that_is_none_is_an_error() {
        for bad in ["", "10.0.0.0/33", "10.0.0/8", "::1/129", "host", "1.2.3.4/-1"] {
            assert!(TrustedProxies::new(&[bad.to_owned()]).is_err(), "{bad}");
        }
        assert!(TrustedProxies::new(&["0.0.0.0/0".into(), "::/0".into()]).is_ok());
    }
}
