//! However the network cuts an answer into pieces, it is the same answer.

use super::*;

fn all() -> Vec<(&'static str, &'static str)> {
    vec![
        ("POST", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nX: y\r\n\r\nhello"),
        ("POST", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhell"),
        (
            "POST",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n02 ;x\r\nde\r\n0\r\nX-Sum: 1\r\n\r\n",
        ),
        ("POST", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\nzz\r\n"),
        ("POST", "\r\n\r\nHTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\nContent-Length: 2\n\r\nok"),
        ("POST", "HTTP/1.0 200 OK\r\n\r\nuntil the end"),
        ("HEAD", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n"),
        ("POST", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nokmore"),
        ("POST", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 2\r\n\r\nok"),
        ("POST", "HTTP/1.1 200 OK\r\nX: a\rb\r\n\r\n"),
    ]
}

fn told(answered: Result<Answered, Fault>) -> String {
    match answered {
        // Whether more comes is not known as long as it has not come.
        Ok(answered) => format!("{:?}", Answered { rests: false, ..answered }),
        Err(fault) => fault.to_string(),
    }
}

#[tokio::test]
async fn an_answer_is_the_same_wherever_it_is_cut() {
    for (method, said) in all() {
        let whole = told(ask(of(method), Script::saying([said]).closed()).await);
        for first in 0..said.len() {
            for second in [first, (first + 1).min(said.len()), (first + 7).min(said.len())] {
                let pieces = [&said[..first], &said[first..second], &said[second..]];
                let script = Script::saying(pieces.into_iter().filter(|piece| !piece.is_empty())).closed();
                assert_eq!(told(ask(of(method), script).await), whole, "{pieces:?}");
            }
        }
        let drips = Script::saying(said.as_bytes().chunks(1)).closed();
        assert_eq!(told(ask(of(method), drips).await), whole, "{said:?} in drips");
    }
}
