//! Certificates for servers that shall speak TLS.

use std::net::IpAddr;
use std::path::Path;
use std::process::Command;

use crate::DevError;
use crate::process::run;

/// Writes a key, and a certificate that nobody else vouches for.
pub fn self_signed(ip: IpAddr, key: &Path, certificate: &Path) -> Result<(), DevError> {
    let mut openssl = Command::new("openssl");
    openssl.args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]);
    openssl.args(["-days", "2", "-subj", "/CN=rowlock", "-addext", "basicConstraints=critical,CA:FALSE"]);
    openssl.args(["-addext", &format!("subjectAltName=IP:{ip}"), "-keyout"]).arg(key);
    run(openssl.arg("-out").arg(certificate)).map(drop)
}
