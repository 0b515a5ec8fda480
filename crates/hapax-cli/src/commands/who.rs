use tokio::net::UnixStream;

/// Who runs this command, as the kernel knows it: the same words as at the socket.
pub(crate) fn actor() -> String {
    let uid = UnixStream::pair().and_then(|(one, _other)| one.peer_cred()).map(|credentials| credentials.uid());
    uid.map_or_else(|_| "local".to_owned(), |uid| format!("local (uid {uid})"))
}
