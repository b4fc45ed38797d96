//! Requests that are too much, and clients that are too slow.

use std::io::{Read, Write};
use std::thread;
use std::time::{Duration, Instant};

use crate::fixture::{FILES, Start, serve, serve_with};

#[test]
fn long_requests_are_refused() {
    let served = serve();
    assert_eq!(served.get(&format!("/?q={}", "x".repeat(1001))).status, 400);
    assert_eq!(served.get(&format!("/?q={}", "x".repeat(5000))).status, 400);
    assert_eq!(served.get(&format!("/?{}", "a=b&".repeat(100))).status, 400);
    let long = served.get(&format!("/?q={}", "x".repeat(100_000))).status;
    assert!(matches!(long, 414 | 431), "{long}");
    let header = format!("X-Long: {}", "x".repeat(100_000));
    assert_eq!(served.request("GET", "/", &[&header], "").status, 431);
    let form = "Content-Type: application/x-www-form-urlencoded";
    let body = format!("token={}", "x".repeat(100_000));
    assert_eq!(served.request("POST", "/login", &[form], &body).status, 413);
    for limit in ["0", "201", "-1", "x", "99999999999999999999"] {
        assert_eq!(served.get(&format!("/api/v1/search?q=retry&limit={limit}")).status, 400, "{limit}");
    }
    assert_eq!(served.get("/api/v1/search?q=%E2%80%A6").status, 400, "no word");
    assert_eq!(served.send(b"nonsense\r\n\r\n").status, 400);
    assert_eq!(served.get("/healthz").status, 200);
}

#[test]
fn slow_readers_of_long_answers_keep_others_waiting_only_for_long_ones() {
    let file = "value = 1  # a line that makes the file long\n".repeat(20_000);
    let served = serve_with(&[("long.py", &file), ("src/retry.py", FILES[0].1)], Start::default());
    let request = "GET /raw/shop/long.py HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    let mut slow: Vec<_> = (0..100).map(|_| served.connect()).collect();
    let mut heads = [[0; 12]; 100];
    for (stream, head) in slow.iter_mut().zip(&mut heads) {
        stream.write_all(request.as_bytes()).unwrap();
        stream.read_exact(head).unwrap();
    }
    assert_eq!(&heads[0], b"HTTP/1.1 200");
    // The system takes some of each itself, so that it is not known how many there can be.
    assert!(heads.iter().all(|head| head.ends_with(b"200") || head.ends_with(b"503")));
    assert_eq!(served.get("/?q=retry").status, 200);
    drop(slow);
    while served.get("/raw/shop/long.py").status != 200 {
        thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn slow_clients_block_nobody_and_are_dropped() {
    let served = serve();
    let start = Instant::now();
    let mut slow: Vec<_> = (0..1000).map(|_| served.connect()).collect();
    for (n, stream) in slow.iter_mut().enumerate() {
        // Some say nothing, some begin, some stop before the end of the body.
        match n % 3 {
            0 => {}
            1 => stream.write_all(b"GET / HTTP/1.1\r\nHost: lo").unwrap(),
            _ => stream
                .write_all(b"POST /login HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\nx")
                .unwrap(),
        }
    }
    for _ in 0..20 {
        assert_eq!(served.get("/api/v1/search?q=retry").status, 200);
    }
    assert!(start.elapsed() < Duration::from_secs(9), "{:?}", start.elapsed());
    // The head of a request must have come by then.
    let mut rest = Vec::new();
    slow[1].read_to_end(&mut rest).unwrap();
    assert!(start.elapsed() < Duration::from_secs(25), "{:?}", start.elapsed());
}

#[test]
fn a_thousand_streams_wait_for_the_index_beside_others() {
    let served = serve_with(&FILES, Start { is_building: true, ..Start::default() });
    let request =
        b"GET /api/v1/search/stream?q=retry HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    let mut streams: Vec<_> = (0..1000).map(|_| served.connect()).collect();
    streams.iter_mut().for_each(|stream| stream.write_all(request).unwrap());
    while !served.get("/metrics").body.contains("quarry_streams_open 1000\n") {
        thread::sleep(Duration::from_millis(20));
    }
    // Requests beyond the limit are refused, with the time to retry.
    let mut more: Vec<_> = (0..40).map(|_| served.connect()).collect();
    let refused = more.iter_mut().filter_map(|stream| {
        stream.write_all(request).unwrap();
        let mut head = [0; 12];
        stream.read_exact(&mut head).unwrap();
        head.ends_with(b"503").then_some(())
    });
    assert_eq!(refused.count(), 16);
    served.show();
    // All of them search at once: others are answered, or refused with the time to retry.
    while served.get("/api/v1/search?q=retry").status == 503 {
        thread::sleep(Duration::from_millis(20));
    }
    for mut stream in streams {
        let mut reply = String::new();
        stream.read_to_string(&mut reply).unwrap();
        assert!(reply.contains("event: end\n"), "{reply}");
    }
    while !served.get("/metrics").body.contains("quarry_streams_open 0\n") {
        thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn unread_streams_do_not_delay_shutdown() {
    let mut served = serve_with(&FILES, Start { is_building: true, ..Start::default() });
    let request = b"GET /api/v1/search/stream?q=retry HTTP/1.1\r\nHost: localhost\r\n\r\n";
    let streams: Vec<_> = (0..300)
        .map(|_| {
            let mut stream = served.connect();
            stream.write_all(request).unwrap();
            stream
        })
        .collect();
    while !served.get("/metrics").body.contains("quarry_streams_open 300\n") {
        thread::sleep(Duration::from_millis(20));
    }
    let start = Instant::now();
    served.end();
    assert!(start.elapsed() < Duration::from_secs(5), "{:?}", start.elapsed());
    drop(streams);
}

#[test]
fn a_connection_serves_many_requests_until_the_server_ends() {
    let mut served = serve();
    let mut stream = served.connect();
    for _ in 0..3 {
        stream.write_all(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
        let mut reply = [0; 4096];
        let n = stream.read(&mut reply).unwrap();
        assert!(reply[..n].starts_with(b"HTTP/1.1 200") && reply[..n].ends_with(b"ok\n"));
    }
    let start = Instant::now();
    let closed = thread::spawn(move || stream.read_to_end(&mut Vec::new()).map(|_| ()));
    served.end();
    closed.join().unwrap().unwrap();
    assert!(start.elapsed() < Duration::from_secs(5));
    assert!(std::net::TcpStream::connect(served.address).is_err());
}

#[test]
fn concurrent_requests_are_answered_or_asked_to_retry() {
    let served = serve();
    thread::scope(|scope| {
        let clients: Vec<_> = (0..200)
            .map(|n| {
                let served = &served;
                scope.spawn(move || {
                    let reply = served.get(&format!("/?q=retry+number+{n}"));
                    assert!(
                        reply.status == 200 || reply.status == 503 && reply.header("retry-after").is_some()
                    );
                    reply.status
                })
            })
            .collect();
        let statuses: Vec<u16> = clients.into_iter().map(|client| client.join().unwrap()).collect();
        assert!(statuses.iter().filter(|status| **status == 200).count() >= 50, "{statuses:?}");
    });
}
