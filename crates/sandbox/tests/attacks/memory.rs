//! Using more memory than allowed.

use quarry_sandbox::{Bubblewrap, Ended, Limits, MemoryBound, Outcome, Sandbox};

use crate::harness::{attack, attack_in, fails, limits, namespaces, program, sandboxes};

/// Factor by which memory may exceed the limit between two samples of the watchdog.
const OVERSHOOT: u64 = 2;

fn ran_out_of_memory(outcome: &Outcome) {
    assert_eq!(outcome.ended, Ended::Memory, "{} {}", outcome.stdout.text(), outcome.stderr.text());
    let limit = limits().memory_bytes;
    let most = if outcome.memory_bound == MemoryBound::Watchdog { OVERSHOOT * limit } else { limit };
    assert!((limit / 2..=most).contains(&outcome.peak_memory_bytes), "{}", outcome.peak_memory_bytes);
}

#[test]
fn a_memory_bomb_of_many_processes_ends() {
    let bomb = "
import os, time
for _ in range(8):
    os.fork()
    block = bytearray(os.urandom(1 << 20)) * 8
    time.sleep(0.1)
time.sleep(60)
";
    attack(bomb, &limits(), ran_out_of_memory);
}

#[test]
fn a_memory_bomb_of_one_process_ends() {
    let bomb = "block = []\nwhile True: block.append(bytearray(b'x' * (1 << 20)))";
    attack(bomb, &limits(), |outcome| match outcome.memory_bound {
        // The kernel refuses allocations before the limit is exceeded.
        MemoryBound::Watchdog if outcome.ended != Ended::Memory => {
            assert_eq!(outcome.ended, Ended::Exited { code: 1 });
            assert!(outcome.stderr.text().contains("MemoryError"), "{}", outcome.stderr.text());
        }
        _ => ran_out_of_memory(outcome),
    });
}

/// An attack that would use more than twice the limit, and then print that. It must be killed, or its allocations
/// refused.
fn is_bounded(bomb: &str) {
    is_bounded_in(sandboxes(), bomb);
}

fn is_bounded_in(sandboxes: &[Box<dyn Sandbox>], bomb: &str) {
    attack_in(sandboxes, bomb, &limits(), |outcome| {
        let text = format!("{outcome:?}\n{}\n{}", outcome.stdout.text(), outcome.stderr.text());
        match outcome.ended {
            Ended::Memory => {}
            // Attacks on kernel memory may be refused allocations.
            Ended::Exited { .. } => assert!(outcome.stdout.text().contains("refused"), "{text}"),
            _ => panic!("{text}"),
        }
        assert!(outcome.peak_memory_bytes <= OVERSHOOT * limits().memory_bytes, "{text}");
    });
}

#[test]
fn shared_memory_that_nobody_has_resident_is_bounded() {
    for (block, rest) in [
        ("mmap.mmap(-1, 8 << 20)", "madvise(mmap.MADV_DONTNEED)"),
        ("mmap.mmap(-1, 8 << 20)", "resize(4096)"),
        ("mmap.mmap(os.open('/dev/zero', os.O_RDWR), 8 << 20)", "madvise(mmap.MADV_DONTNEED)"),
    ] {
        is_bounded(&format!(
            "
import mmap, os
kept = []
try:
    for _ in range(50):
        kept.append({block})
        kept[-1].write(b'x' * (8 << 20))
        kept[-1].{rest}
    print('ESCAPED:', len(kept), 'blocks')
except OSError: print('refused')
"
        ));
    }
}

#[test]
fn files_without_content_are_bounded() {
    is_bounded(
        "
import os
os.chdir('/tmp')
try:
    for number in range(600_000): os.close(os.open(f'{number:0240}', os.O_CREAT | os.O_WRONLY))
    print('ESCAPED:', number, 'files')
except OSError: print('refused')
",
    );
}

#[test]
fn files_in_memory_count() {
    let filler = "
import time
for directory in ('/box', '/tmp', '/dev/shm'):
    with open(directory + '/file', 'wb') as file:
        for _ in range(120): file.write(bytes(1 << 20))
print('ESCAPED')
time.sleep(1)
";
    let limits = Limits { directory_bytes: 128 << 20, file_bytes: 128 << 20, ..limits() };
    attack(filler, &limits, ran_out_of_memory);
}

#[test]
fn data_in_sockets_is_bounded() {
    is_bounded(
        "
import os, socket, time
processes = 0
try:
    for _ in range(28):
        if os.fork():
            processes += 1
            continue
        kept = []
        for _ in range(28):
            pair = socket.socketpair()
            kept.append(pair)
            for end in pair:
                try: end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 20)
                except OSError: pass
                end.setblocking(False)
                try:
                    while True: end.send(bytes(1 << 15))
                except BlockingIOError: pass
        time.sleep(3)
        os._exit(0)
    if all(os.wait()[1] == 0 for _ in range(processes)): print('ESCAPED')
    print('refused')
except OSError: print('refused')
",
    );
}

#[test]
fn data_in_connections_is_bounded() {
    // Podman does not limit what the kernel counts for TCP.
    is_bounded_in(
        &namespaces(),
        "
import os, socket
server = socket.create_server(('127.0.0.1', 0), backlog=50)
kept, held = [], 0
try:
    for _ in range(28):
        near = socket.create_connection(server.getsockname())
        far = server.accept()[0]
        kept += [near, far]
        for end, other in [(near, far), (far, near)]:
            end.setblocking(False)
            other.setblocking(False)
            # What is read lets the buffers grow, until nothing is.
            for is_read in [True, False]:
                for _ in range(600):
                    try: held += end.send(bytes(1 << 16))
                    except BlockingIOError:
                        if not is_read: break
                    try:
                        while is_read: held -= len(other.recv(1 << 16))
                    except BlockingIOError: pass
    print('ESCAPED' if held > 192 << 20 else 'refused', held)
except OSError: print('refused')
",
    );
}

/// Common code of attacks with mappings that Python does not offer.
const MAPPING: &str = "
import attack, ctypes, os, time
libc = attack.libc
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t] + [ctypes.c_int] * 3 + [ctypes.c_long]
libc.mprotect.argtypes = libc.madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
def reserve(length):
    start = libc.mmap(None, length, 1, 0x4022, -1, 0)
    if start == ctypes.c_void_p(-1).value: raise OSError
    libc.madvise(start, length, 15)
    return start
";

#[test]
fn tables_of_pages_are_bounded() {
    is_bounded(&format!(
        "{MAPPING}
try:
    start = reserve(200 << 30)
    for page in range(100_000): ctypes.string_at(start + (page << 21), 1)
    print('ESCAPED')
except OSError: print('refused')
"
    ));
}

#[test]
fn mappings_are_bounded() {
    is_bounded(&format!(
        "{MAPPING}
try:
    for _ in range(24):
        if os.fork() == 0:
            start = reserve(60_000 << 12)
            for page in range(0, 60_000, 2):
                if libc.mprotect(start + (page << 12), 4096, 0): os._exit(1)
            time.sleep(5)
            os._exit(0)
    if all(os.wait()[1] == 0 for _ in range(24)): print('ESCAPED')
    print('refused')
except OSError: print('refused')
"
    ));
}

#[test]
fn ordinary_programs_stay_far_below() {
    let Ok(sandbox) = Bubblewrap::open() else { return };
    let (program, _) = program(
        "
import asyncio, http.server, multiprocessing, multiprocessing.shared_memory, subprocess, threading, urllib.request
def square(number): return number * number
if __name__ == '__main__':
    with multiprocessing.Pool(4) as pool: assert pool.map(square, range(100))[-1] == 99 * 99
    queue, array = multiprocessing.Queue(), multiprocessing.Array('i', 1000)
    child = multiprocessing.Process(target=queue.put, args=(1,))
    child.start()
    assert queue.get() == 1 and array[0] == 0
    child.join()
    shared = multiprocessing.shared_memory.SharedMemory(create=True, size=1 << 20)
    shared.close()
    shared.unlink()
    async def started():
        child = await asyncio.create_subprocess_exec('echo', 'x', stdout=subprocess.PIPE)
        return (await child.communicate())[0]
    assert asyncio.run(started()) == b'x\\n'
    server = http.server.ThreadingHTTPServer(('127.0.0.1', 0), http.server.SimpleHTTPRequestHandler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    assert len(urllib.request.urlopen(f'http://127.0.0.1:{server.server_port}/main.py').read()) > 1000
    print('done')
",
    );
    let limits = Limits { memory_bytes: 512 << 20, ..Limits::default() };
    let outcome = sandbox.without_cgroups().run(&program, &limits).unwrap();
    assert_eq!(outcome.stdout.text(), "done\n", "{outcome:?} {}", outcome.stderr.text());
    assert!(outcome.peak_memory_bytes < 128 << 20, "{}", outcome.peak_memory_bytes);
}

#[test]
fn memory_without_a_process_is_not_to_be_had() {
    fails(&format!(
        "
import attack
attack.system_call('memfd_create', {}, 0, 0)
attack.system_call('shmget', {}, 0, 1 << 20, 0o1600)
attack.system_call('semget', {}, 0, 32000, 0o1600)
attack.system_call('msgget', {}, 0, 0o1600)
attack.end()
",
        libc::SYS_memfd_create,
        libc::SYS_shmget,
        libc::SYS_semget,
        libc::SYS_msgget
    ));
}
