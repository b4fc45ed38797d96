//! Exhausting the machine.

use std::time::Duration;

use quarry_sandbox::{Ended, Limits};

use crate::harness::{attack, fails, limits};

#[test]
fn a_fork_bomb_is_bounded_and_ends() {
    let bomb = "import os\nwhile True:\n    try: os.fork()\n    except OSError: pass";
    attack(bomb, &Limits { wall_time: Duration::from_secs(2), ..limits() }, |outcome| {
        assert_eq!(outcome.ended, Ended::WallTime);
    });
}

#[test]
fn processes_and_threads_are_counted_together() {
    fails(
        "
import attack, os, threading, time
for _ in range(8):
    threading.Thread(target=time.sleep, args=(1,)).start()
count = 0
try:
    while count < 100:
        if os.fork() == 0:
            time.sleep(60)
        count += 1
except BlockingIOError:
    pass
if not 16 <= count <= 24:
    print('ESCAPED:', count, 'processes')
attack.end()
",
    );
}

/// Process 1 belongs to the sandbox, but the program's user may write to its memory: there it must not be, or have all
/// limits of the program.
#[test]
fn code_in_process_1_is_bounded() {
    // A hundred children that wait, for x86-64: fork, and of the child pause.
    let source = "
import attack, os, platform, time
def limits(process):
    lines = open(f'/proc/{process}/limits').read().splitlines()
    return {line[:26].strip(): line[26:46].strip() for line in lines[1:]}
try: of_init = limits(1)
except OSError: of_init = {}
for name, limit in limits('self').items():
    if name in of_init and (of_init[name], limit) != (limit, limit):
        print('ESCAPED:', name, of_init[name], 'instead of', limit)
code = bytes.fromhex('bb64000000 b839000000 0f05 85c0 7404 ffcb 75f1 b822000000 0f05 ebf7')
try:
    if platform.machine() == 'x86_64':
        counter = int(open('/proc/1/syscall').read().split()[-1], 16)
        with open('/proc/1/mem', 'r+b', buffering=0) as memory:
            memory.seek(counter)
            memory.write(code)
except OSError: pass
# Its wait ends with an orphan.
if os.fork() == 0:
    if os.fork() == 0: os._exit(0)
    os._exit(0)
os.wait()
time.sleep(1)
count = sum(name.isdigit() for name in os.listdir('/proc'))
if count > 36: print('ESCAPED:', count, 'processes')
attack.end()
";
    let limits = Limits { wall_time: Duration::from_secs(20), ..limits() };
    attack(source, &limits, |outcome| {
        assert_eq!(outcome.stdout.text(), "the end\n", "{outcome:?} {}", outcome.stderr.text());
    });
}

#[test]
fn a_disk_filler_fills_what_it_was_given() {
    fails(
        "
import attack, os
written = {}
for directory in ['/box', '/tmp', '/dev/shm']:
    count = 0
    try:
        for number in range(100):
            with open(f'{directory}/{number}', 'wb', buffering=0) as file:
                for _ in range(16):
                    count += file.write(bytes(1 << 16))
    except OSError as error:
        assert error.errno == 28, error
    if not 3 << 20 < count <= 4 << 20:
        print('ESCAPED:', count, 'bytes in', directory)
for root, directories, _ in os.walk('/', onerror=None):
    directories[:] = [name for name in directories if os.path.join(root, name) not in
                  # The mode of the terminals' directory proves nothing; the test below shows that nothing can be created there.
                  ('/proc', '/box', '/tmp', '/dev/shm', '/dev/pts')]
    if os.access(root, os.W_OK):
        print('ESCAPED: can write to', root)
for directory in ['/', '/dev', '/dev/pts', '/etc', '/usr', '/usr/local', '/bin', '/opt', '/run', '/var/tmp', '/proc']:
    attack.refused(directory, attack.write, os.path.join(directory, 'file'))
attack.end()
",
    );
}

#[test]
fn a_file_is_bounded() {
    let source = "
import attack, signal
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
try:
    with open('/tmp/file', 'wb') as file:
        file.truncate(1 << 21)
    print('ESCAPED')
except OSError:
    attack.end()
";
    attack(source, &Limits { file_bytes: 1 << 20, ..limits() }, |outcome| {
        assert_eq!(outcome.stdout.text(), "the end\n", "{}", outcome.stderr.text());
    });
}

#[test]
fn an_output_flood_is_drained_and_not_kept() {
    let flood = "
import sys
block = b'x' * (1 << 20)
for _ in range(64):
    sys.stdout.buffer.write(block)
    sys.stderr.buffer.write(block)
";
    attack(flood, &limits(), |outcome| {
        assert_eq!(outcome.ended, Ended::Exited { code: 0 });
        for stream in [&outcome.stdout, &outcome.stderr] {
            assert_eq!((stream.bytes.len(), stream.total_bytes), (64 << 10, 64 << 20));
            assert!(stream.is_truncated());
        }
    });
}

/// A reader of the output, such as a container's monitor, does not prevent killing the program.
#[test]
fn an_output_flood_without_end_is_ended_in_time() {
    let flood = "
import sys
block = b'x' * (1 << 20)
while True:
    sys.stdout.buffer.write(block)
    sys.stderr.buffer.write(block)
";
    let limits = Limits { wall_time: Duration::from_secs(4), ..limits() };
    attack(flood, &limits, |outcome| {
        assert_eq!(outcome.ended, Ended::WallTime);
        // If killing takes longer than that, it is an error.
        assert!(outcome.wall_time < Duration::from_secs(4 + 10), "{:?}", outcome.wall_time);
        for stream in [&outcome.stdout, &outcome.stderr] {
            assert!(stream.bytes.len() == 64 << 10 && stream.is_truncated());
        }
    });
}

#[test]
fn open_files_are_bounded_and_limits_cannot_be_raised() {
    fails(
        "
import attack, resource
files = []
try:
    while len(files) < 100: files.append(open('/dev/null'))
    print('ESCAPED:', len(files), 'open files')
except OSError:
    pass
for file in files: file.close()
for limit in ['NPROC', 'NOFILE', 'FSIZE', 'CPU', 'CORE']:
    number = getattr(resource, 'RLIMIT_' + limit)
    hard = resource.getrlimit(number)[1]
    if hard == resource.RLIM_INFINITY: print('ESCAPED:', limit, 'is not bounded')
    attack.refused(limit, resource.setrlimit, number, (hard + 1, hard + 1))
attack.end()
",
    );
}

#[test]
fn time_is_bounded_for_those_who_ignore_signals() {
    let stubborn = "
import signal, time
for number in range(1, 65):
    try: signal.signal(number, signal.SIG_IGN)
    except (OSError, ValueError): pass
while True: time.sleep(1)
";
    attack(stubborn, &Limits { wall_time: Duration::from_secs(1), ..limits() }, |outcome| {
        assert_eq!(outcome.ended, Ended::WallTime);
        assert!(outcome.wall_time < Duration::from_secs(60), "{:?}", outcome.wall_time);
    });
}

#[test]
fn a_program_that_stops_itself_is_ended() {
    let stopped = "import os, signal\nos.kill(os.getpid(), signal.SIGSTOP)";
    attack(stopped, &Limits { wall_time: Duration::from_secs(1), ..limits() }, |outcome| {
        assert_eq!(outcome.ended, Ended::WallTime);
    });
}

#[test]
fn cpu_time_is_bounded_for_those_who_ignore_its_signal() {
    let busy = "import signal\nsignal.signal(signal.SIGXCPU, signal.SIG_IGN)\nwhile True: pass";
    attack(busy, &Limits { cpu_time: Duration::from_secs(1), ..limits() }, |outcome| {
        assert_eq!(outcome.ended, Ended::CpuTime, "{outcome:?}");
        assert!(outcome.cpu_time < Duration::from_secs(4), "{:?}", outcome.cpu_time);
    });
}

#[test]
fn cpu_time_of_many_short_processes_is_bounded() {
    let chain = "
import os, time
for _ in range(200):
    if os.fork() == 0:
        while time.process_time() < 0.3: pass
        os._exit(0)
    os.wait()
";
    let second = Duration::from_secs(1);
    attack(chain, &Limits { cpu_time: second, wall_time: 60 * second, ..limits() }, |outcome| {
        assert_eq!(outcome.ended, Ended::CpuTime, "{outcome:?}");
        assert!(outcome.cpu_time < Duration::from_secs(5), "{:?}", outcome.cpu_time);
    });
}
