use std::{
    future::Future,
    net::SocketAddr,
    sync::{Arc, Mutex},
};

use hapax_http1::{Ahead, Incoming, Manners, serve, taken};
use http::Request;
use tokio::{
    net::{TcpListener, TcpSocket},
    sync::watch,
};

use super::Out;

pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    pub(crate) stop: watch::Sender<bool>,
}

impl Server {
    pub(crate) fn start<S, F>(manners: Manners, service: S) -> Self
    where
        S: Fn(Request<Incoming>) -> F + Clone + Send + Sync + 'static,
        F: Future<Output = Out> + Send + 'static,
    {
        let socket = TcpSocket::new_v4().unwrap();
        // Little fits into it: whoever does not read is noticed soon.
        socket.set_send_buffer_size(32 * 1024).unwrap();
        socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let listener = socket.listen(64).unwrap();
        let (stop, stopping) = watch::channel(false);
        let address = listener.local_addr().unwrap();
        tokio::spawn(accept(listener, Arc::new(manners), stopping, service));
        Self { address, stop }
    }
}

async fn accept<S, F>(listener: TcpListener, manners: Arc<Manners>, stop: watch::Receiver<bool>, service: S)
where
    S: Fn(Request<Incoming>) -> F + Clone + Send + Sync + 'static,
    F: Future<Output = Out> + Send + 'static,
{
    while let Ok((stream, _)) = listener.accept().await {
        taken(&stream);
        let (manners, stop, service) = (Arc::clone(&manners), stop.clone(), service.clone());
        tokio::spawn(async move { serve(stream, Ahead::default(), &manners, stop, service).await });
    }
}

/// What a service was asked, in order.
#[derive(Clone, Debug, Default)]
pub(crate) struct Log(Arc<Mutex<Vec<String>>>);

impl Log {
    pub(crate) fn note(&self, request: &Request<Incoming>) {
        self.0.lock().unwrap().push(request.uri().to_string());
    }

    pub(crate) fn all(&self) -> Vec<String> {
        self.0.lock().unwrap().clone()
    }
}
