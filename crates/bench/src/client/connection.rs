//! One keep-alive connection that speaks as much HTTP/1.1 as the servers under test do.

use std::io;
use std::net::SocketAddr;

use tokio::net::TcpStream;

const READ: usize = 16 * 1024;
const END_OF_HEAD: &[u8] = b"\r\n\r\n";

pub struct Connection {
    stream: TcpStream,
    buffer: Vec<u8>,
}

pub struct Answer<'a> {
    pub status: u16,
    pub body: &'a [u8],
}

impl Connection {
    pub async fn open(address: SocketAddr) -> io::Result<Self> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        Ok(Self { stream, buffer: Vec::with_capacity(READ) })
    }

    /// Sends a whole request and waits for the whole answer.
    pub async fn send(&mut self, request: &[u8]) -> io::Result<Answer<'_>> {
        self.write(request).await?;
        self.buffer.clear();
        let mut head = None;
        loop {
            self.read().await?;
            if head.is_none() {
                head = Head::parse(&self.buffer)?;
            }
            if let Some(Head { status, length, end }) = head
                && self.buffer.len() >= end + length
            {
                return Ok(Answer { status, body: &self.buffer[end..end + length] });
            }
        }
    }

    async fn write(&self, mut rest: &[u8]) -> io::Result<()> {
        while !rest.is_empty() {
            match self.stream.try_write(rest) {
                Ok(written) => rest = &rest[written..],
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.stream.writable().await?,
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    async fn read(&mut self) -> io::Result<()> {
        loop {
            self.stream.readable().await?;
            self.buffer.reserve(READ);
            match self.stream.try_read_buf(&mut self.buffer) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(_) => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct Head {
    status: u16,
    /// Of the body.
    length: usize,
    /// Where the body begins.
    end: usize,
}

impl Head {
    /// `None` while it is not complete.
    fn parse(bytes: &[u8]) -> io::Result<Option<Self>> {
        let Some(end) = bytes.windows(END_OF_HEAD.len()).position(|window| window == END_OF_HEAD) else {
            return Ok(None);
        };
        let bad = |what: &str| io::Error::new(io::ErrorKind::InvalidData, what);
        let mut lines = bytes[..end].split(|byte| *byte == b'\n');
        let status = lines.next().and_then(|line| line.get(9..12)).and_then(number);
        let status = status.ok_or_else(|| bad("an answer without a status"))?;
        let length = lines.find_map(|line| {
            const NAME: &[u8] = b"content-length:";
            let (name, value) = line.split_at_checked(NAME.len())?;
            name.eq_ignore_ascii_case(NAME).then(|| number(value.trim_ascii()))?
        });
        // 304 has no body and need not say so.
        let length = if status == 304 { Some(0) } else { length };
        let length = length.ok_or_else(|| bad("an answer of unknown length"))?;
        Ok(Some(Self { status: status as u16, length, end: end + END_OF_HEAD.len() }))
    }
}

fn number(digits: &[u8]) -> Option<usize> {
    std::str::from_utf8(digits).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::Head;

    #[test]
    fn a_head_is_read_when_it_is_complete() {
        let text = b"HTTP/1.1 201 Created\r\nserver: x\r\nContent-Length: 5\r\n\r\nhello";
        assert_eq!(Head::parse(&text[..30]).unwrap(), None);
        let head = Head::parse(text).unwrap().unwrap();
        assert_eq!((head.status, head.length, &text[head.end..]), (201, 5, &b"hello"[..]));
        assert_eq!(Head::parse(b"HTTP/1.1 304 Not Modified\r\n\r\n").unwrap().unwrap().length, 0);
    }

    #[test]
    fn what_is_no_answer_is_an_error() {
        assert!(Head::parse(b"SSH-2.0-OpenSSH\r\n\r\n").is_err());
        assert!(Head::parse(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n").is_err());
    }
}
