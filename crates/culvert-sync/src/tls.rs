//! TLS 1.3 between hosts, which hides what writers ask.
//!
//! A service makes a key for as long as it lives and writes the public half into its lease, which
//! nobody but the user can read or write. The other end accepts that key and no other one (a raw
//! public key, RFC 7250): hosts that come and go have no names that somebody could certify, and
//! nothing expires. Who the writer is, the secret shows, inside.

use ring::rand::SystemRandom;
use ring::signature::Ed25519KeyPair;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring as provider, verify_tls13_signature_with_raw_key};
use rustls::pki_types::{
    CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, ServerName, SubjectPublicKeyInfoDer,
    UnixTime,
};
use rustls::server::AlwaysResolvesServerRawPublicKeys;
use rustls::sign::CertifiedKey;
use rustls::version::TLS13;
use rustls::{
    CertificateError, ClientConfig, ClientConnection, DigitallySignedStruct, Error, PeerMisbehaved,
    ServerConfig, ServerConnection, SignatureScheme,
};
use std::io::{self, Read, Write};
use std::net::IpAddr;
use std::sync::Arc;

/// What a service shows that it is.
#[derive(Clone, Debug)]
pub struct Identity {
    config: Arc<ServerConfig>,
    key: String,
}

impl Identity {
    /// One that nobody has had before.
    pub fn new() -> io::Result<Self> {
        let pair = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new());
        let pair = pair.map_err(|_| io::Error::other("no key can be made"))?;
        let pair = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(pair.as_ref()));
        let signs = provider::sign::any_eddsa_type(match &pair {
            PrivateKeyDer::Pkcs8(pair) => pair,
            _ => return Err(io::ErrorKind::InvalidData.into()),
        });
        let signs = signs.map_err(io::Error::other)?;
        let public = signs.public_key().map(|key| key.to_vec());
        let public = public.ok_or(io::ErrorKind::InvalidData)?;
        let key = public.iter().map(|byte| format!("{byte:02x}")).collect();
        let whole = CertifiedKey::new(vec![CertificateDer::from(public)], signs);
        let whole = AlwaysResolvesServerRawPublicKeys::new(Arc::new(whole));
        let config = ServerConfig::builder_with_provider(Arc::new(provider::default_provider()));
        let config = config.with_protocol_versions(&[&TLS13]);
        let config = config.map_err(io::Error::other)?.with_no_client_auth();
        let mut config = config.with_cert_resolver(Arc::new(whole));
        // Connections last; nothing of one serves another one.
        config.send_tls13_tickets = 0;
        Ok(Self {
            config: Arc::new(config),
            key,
        })
    }

    /// Its public key (SubjectPublicKeyInfo, hexadecimal), as the lease has it.
    pub fn key(&self) -> &str {
        &self.key
    }
}

/// The service's end of a connection.
pub struct Cover(ServerConnection);

impl Cover {
    /// One that shows `identity`.
    pub fn new(identity: &Identity) -> io::Result<Self> {
        let connection = ServerConnection::new(Arc::clone(&identity.config));
        Ok(Self(connection.map_err(io::Error::other)?))
    }

    /// What `bytes` from the other end say, put behind `plain`; an error: nothing that it may send.
    pub fn open(&mut self, mut bytes: &[u8], plain: &mut Vec<u8>) -> io::Result<()> {
        while !bytes.is_empty() {
            if self.0.read_tls(&mut bytes)? == 0 {
                return Err(io::ErrorKind::InvalidData.into());
            }
            self.0.process_new_packets().map_err(io::Error::other)?;
            read_plain(self.0.reader(), plain)?;
        }
        Ok(())
    }

    /// `plain` as it goes out, with what else TLS has to say.
    pub fn seal(&mut self, plain: &[u8]) -> io::Result<Vec<u8>> {
        self.0.writer().write_all(plain)?;
        let mut bytes = Vec::new();
        while self.0.wants_write() {
            self.0.write_tls(&mut bytes)?;
        }
        Ok(bytes)
    }
}

/// Puts what there is behind `plain`.
pub(crate) fn read_plain(mut reader: impl Read, plain: &mut Vec<u8>) -> io::Result<()> {
    match reader.read_to_end(plain) {
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(()),
        read => read.map(|_| ()),
    }
}

/// A writer's end of a connection with the service at `address` whose public key is `key`.
pub(crate) fn to_service(address: IpAddr, key: &str) -> io::Result<ClientConnection> {
    let wrong = || io::Error::new(io::ErrorKind::InvalidInput, "no public key");
    let pairs = key.as_bytes().chunks(2).map(|two| {
        let text = std::str::from_utf8(two).ok().filter(|two| two.len() == 2);
        text.and_then(|text| u8::from_str_radix(text, 16).ok())
    });
    let key: Vec<u8> = pairs.collect::<Option<_>>().ok_or_else(wrong)?;
    let provider = Arc::new(provider::default_provider());
    let verifier = Arc::new(Pinned {
        key,
        provider: Arc::clone(&provider),
    });
    let config = ClientConfig::builder_with_provider(provider);
    let config = config.with_protocol_versions(&[&TLS13]);
    let config = config.map_err(io::Error::other)?.dangerous();
    let config = config.with_custom_certificate_verifier(verifier);
    let mut config = config.with_no_client_auth();
    config.enable_sni = false;
    config.resumption = rustls::client::Resumption::disabled();
    let name = ServerName::IpAddress(address.into());
    ClientConnection::new(Arc::new(config), name).map_err(io::Error::other)
}

/// Accepts one key.
#[derive(Debug)]
struct Pinned {
    key: Vec<u8>,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for Pinned {
    fn verify_server_cert(
        &self,
        shown: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        match shown.as_ref() == self.key {
            true => Ok(ServerCertVerified::assertion()),
            false => Err(CertificateError::ApplicationVerificationFailure.into()),
        }
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Err(PeerMisbehaved::SignedHandshakeWithUnadvertisedSigScheme.into())
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        shown: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let key = SubjectPublicKeyInfoDer::from(shown.as_ref());
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature_with_raw_key(message, &key, signed, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        vec![SignatureScheme::ED25519]
    }

    fn requires_raw_public_keys(&self) -> bool {
        true
    }
}
