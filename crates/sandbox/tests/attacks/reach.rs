//! Reaching things outside of the sandbox.

use std::fs;
use std::net::TcpListener;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};

use quarry_sandbox::{Ended, Program};
use rustix::io::FdFlags;

use crate::harness::{fails, limits, program, sandboxes};

#[test]
fn files_of_the_machine_are_not_there() {
    let here = env!("CARGO_MANIFEST_DIR");
    let test = std::env::current_exe().unwrap();
    fails(&format!(
        "
import attack, os
paths = ['/etc/shadow', '/etc/machine-id', '/root', '/home', '/var', '/run', '/sys', '/srv',
         '/boot', '/mnt', '/media', {here:?}, {here:?} + '/Cargo.toml', {test:?}]
for number in list(range(1, 5)) + ['self', 'thread-self']:
    for link in ['root', 'cwd']:
        paths += [f'/proc/{{number}}/{{link}}/etc/shadow', f'/proc/{{number}}/{{link}}/../../../root',
                  f'/proc/{{number}}/{{link}}/{{{here:?}}}']
for number, path in enumerate(paths):
    attack.refused(path, attack.read if os.path.isfile(path) else attack.entries, path)
    attack.refused(path, attack.stat, path)
    os.symlink(path, f'/tmp/link{{number}}')
    attack.refused('a link to ' + path, attack.stat, f'/tmp/link{{number}}')
os.symlink('../' * 20 + 'etc/shadow', 'up')
attack.refused('a link upwards', attack.read, 'up')
attack.refused('a hard link', os.link, '/usr/bin/env', '/tmp/env')
expected = {{'sandbox'}}
if {{line.split(':')[0] for line in open('/etc/passwd')}} != expected: print('ESCAPED: users')
if os.path.exists('/etc/hostname') and open('/etc/hostname').read() != 'sandbox': print('ESCAPED: the name')
known = {{'usr', 'bin', 'sbin', 'lib', 'lib32', 'lib64', 'libx32', 'etc', 'proc', 'dev', 'tmp', 'box'}}
# A container has some places with nothing in them.
if {{name for name in os.listdir('/') if name not in ('sys', 'run', 'opt') or os.listdir('/' + name)}} - known:
    print('ESCAPED:', os.listdir('/'))
attack.end()
"
    ));
}

#[test]
fn the_environment_is_not_inherited() {
    assert!(std::env::var("PATH").is_ok_and(|path| !path.is_empty()));
    fails(
        "
import attack, glob, os
expected = {'PATH', 'HOME', 'LANG', 'PWD', 'PYTHONDONTWRITEBYTECODE', 'PYTHONUNBUFFERED', 'LC_CTYPE'}
if set(os.environ) - expected: print('ESCAPED:', sorted(os.environ))
for path in glob.glob('/proc/[0-9]*/environ'):
    try: text = open(path, 'rb').read()
    except OSError: continue
    names = {entry.split(b'=')[0].decode() for entry in text.split(bytes(1)) if entry}
    if names - expected: print('ESCAPED:', path, names)
for path in glob.glob('/proc/[0-9]*/cmdline'):
    if b'ro-bind' in open(path, 'rb').read(): print('ESCAPED: the options in', path)
attack.end()
",
    );
}

#[test]
fn open_files_are_not_inherited() {
    let directory = fs::File::open("/").unwrap();
    rustix::io::fcntl_setfd(&directory, FdFlags::empty()).unwrap();
    fails(
        "
import attack, os
for process in ['1', 'self']:
    try: numbers = os.listdir(f'/proc/{process}/fd')
    except OSError: continue
    targets = {}
    for number in numbers:
        try: targets[number] = os.readlink(f'/proc/{process}/fd/{number}')
        except OSError: pass
    allowed = ('/dev/null', 'pipe:', 'anon_inode:[eventfd]', f'/proc/{os.getpid()}/fd')
    for number, target in targets.items():
        if not target.startswith(allowed): print('ESCAPED:', process, number, target)
    if process == 'self' and set(numbers) - {'0', '1', '2', '3'}: print('ESCAPED:', targets)
attack.refused('standard input', os.write, 0, b'x')
attack.end()
",
    );
}

#[test]
fn there_is_no_network() {
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = server.local_addr().unwrap().port();
    let name = format!("quarry-attack-{}", std::process::id());
    let address = SocketAddr::from_abstract_name(&name).unwrap();
    let local = UnixListener::bind_addr(&address).unwrap();
    server.set_nonblocking(true).unwrap();
    local.set_nonblocking(true).unwrap();
    fails(&format!(
        "
import attack, os, socket
attack.refused('loopback', socket.create_connection, ('127.0.0.1', {port}), 2)
attack.refused('loopback by name', socket.create_connection, ('localhost', {port}), 2)
attack.refused('another machine', socket.create_connection, ('192.0.2.1', 80), 2)
attack.refused('DNS', socket.getaddrinfo, 'example.com', 80)
datagrams = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
attack.refused('a datagram', datagrams.sendto, b'x', ('192.0.2.1', 53))
abstract = socket.socket(socket.AF_UNIX)
attack.refused('an abstract socket', abstract.connect, '\\0{name}')
attack.refused('raw', socket.socket, socket.AF_INET, socket.SOCK_RAW, 1)
for family in [16, 17, 38, 40, 44]:
    for kind in [1, 2, 3]:
        attack.refused(('socket family', family), socket.socket, family, kind, 0)
        attack.system_call(('socketpair family', family), {}, family, kind, 0, 0)
if os.listdir('/proc/self/net/') and [line for line in open('/proc/self/net/dev') if ':' in line and 'lo:' not in line]:
    print('ESCAPED: interfaces')
attack.end()
",
        libc::SYS_socketpair
    ));
    assert!(server.accept().is_err() && local.accept().is_err(), "somebody came");
}

#[test]
fn proc_is_harmless() {
    fails(
        "
import attack, glob, os
for path in ['/proc/sys/kernel/core_pattern', '/proc/sys/kernel/hostname', '/proc/sys/vm/overcommit_memory',
             '/proc/sys/user/max_user_namespaces', '/proc/sys/net/ipv4/ip_forward', '/proc/sysrq-trigger',
             '/proc/1/oom_score_adj', '/proc/1/mem', '/proc/self/uid_map', '/proc/self/gid_map']:
    attack.refused(path, attack.write, path, 'r+b')
for path in ['/proc/kcore', '/proc/kmsg', '/proc/1/mem']:
    attack.refused(path, attack.read, path)
for root, _, names in os.walk('/proc/sys'):
    for name in names:
        path = os.path.join(root, name)
        try: text = open(path, 'rb').read()
        except OSError: continue
        attack.refused(path, attack.write, path, 'r+b', text)
attack.refused('a lower oom_score_adj', attack.write, '/proc/self/oom_score_adj', content=b'-1000')
if len(glob.glob('/proc/[0-9]*')) > 3: print('ESCAPED:', glob.glob('/proc/[0-9]*'))
if open('/proc/self/status').read().count('CapEff:\\t0000000000000000') != 1: print('ESCAPED: capabilities')
if 'NoNewPrivs:\\t1' not in open('/proc/self/status').read(): print('ESCAPED: new privileges')
attack.end()
",
    );
}

#[test]
fn other_processes_and_the_kernel_are_out_of_reach() {
    let mut calls =
        format!("import attack, os, signal\nnewest, x32, getpid = 463, 0x40000000, {}\n", libc::SYS_getpid);
    for (name, number, arguments) in [
        ("ptrace", libc::SYS_ptrace, "16, 1, 0, 0"),
        ("traceme", libc::SYS_ptrace, "0, 0, 0, 0"),
        ("process_vm_readv", libc::SYS_process_vm_readv, "1, 0, 0, 0, 0, 0"),
        ("unshare user", libc::SYS_unshare, "0x10000000"),
        ("unshare mount", libc::SYS_unshare, "0x20000"),
        ("unshare nothing", libc::SYS_unshare, "0"),
        ("clone user", libc::SYS_clone, "0x10000011, 0, 0, 0, 0"),
        ("clone3", libc::SYS_clone3, "0, 0"),
        ("setns", libc::SYS_setns, "0, 0"),
        ("mount", libc::SYS_mount, "0, 0, 0, 0, 0"),
        ("umount", libc::SYS_umount2, "0, 0"),
        ("pivot_root", libc::SYS_pivot_root, "0, 0"),
        ("chroot", libc::SYS_chroot, "0"),
        ("fsopen", libc::SYS_fsopen, "0, 0"),
        ("open_tree", libc::SYS_open_tree, "0, 0, 0"),
        ("open_by_handle_at", libc::SYS_open_by_handle_at, "0, 0, 0"),
        ("bpf", libc::SYS_bpf, "0, 0, 0"),
        ("perf_event_open", libc::SYS_perf_event_open, "0, 0, 0, 0, 0"),
        ("userfaultfd", libc::SYS_userfaultfd, "0"),
        ("io_uring_setup", libc::SYS_io_uring_setup, "1, 0"),
        ("add_key", libc::SYS_add_key, "0, 0, 0, 0, 0"),
        ("keyctl", libc::SYS_keyctl, "0, 0, 0, 0, 0"),
        ("init_module", libc::SYS_init_module, "0, 0, 0"),
        ("reboot", libc::SYS_reboot, "0, 0, 0, 0"),
        ("sethostname", libc::SYS_sethostname, "0, 0"),
        ("settimeofday", libc::SYS_settimeofday, "0, 0"),
        // A container has no terminal, which prevents typing on it.
        ("typing on the terminal", libc::SYS_ioctl, "0, 0x5412, 0, refusals=(1, 25)"),
        ("typing with high bits set", libc::SYS_ioctl, "0, 0x100005412, 0, refusals=(1, 25)"),
    ] {
        calls += &format!("attack.system_call('{name}', {number}, {arguments})\n");
    }
    calls += "
attack.system_call('a call that is too new', newest)
attack.system_call('a call of the x32 interface', x32 + getpid)
for root, minor in [('/tmp/disk', 0), ('/box/memory', 1), ('/dev/shm/memory', 1)]:
    attack.refused('mknod', os.mknod, root, 0o20666, os.makedev(1, minor))
attack.refused('setuid', os.setuid, 0)
attack.refused('setgroups', os.setgroups, [0])
attack.refused('mount(8)', lambda: os.execvp('mount', ['mount', '-t', 'tmpfs', 'x', '/tmp']) if os.fork() == 0 else
               1 / 0 if os.waitstatus_to_exitcode(os.wait()[1]) else 'mounted')
attack.refused('unshare(1)', lambda: os.execvp('unshare', ['unshare', '-r', 'true']) if os.fork() == 0 else
               1 / 0 if os.waitstatus_to_exitcode(os.wait()[1]) else 'a namespace')
attack.end()
";
    fails(&calls);
}

#[test]
fn devices_are_the_harmless_ones() {
    fails(
        "
import attack, os
expected = {'console', 'core', 'fd', 'full', 'null', 'ptmx', 'pts', 'random', 'shm', 'stderr', 'stdin', 'stdout',
            'tty', 'urandom', 'zero'}
# Masked in a container.
if os.path.exists('/dev/mqueue'):
    attack.refused('queues', attack.entries, '/dev/mqueue')
    attack.refused('a queue', attack.write, '/dev/mqueue/x')
    expected.add('mqueue')
if set(os.listdir('/dev')) - expected: print('ESCAPED:', set(os.listdir('/dev')) - expected)
for name in ['tty', 'console', 'mem', 'kvm', 'vsock', 'fuse', 'sda', 'vda', 'core']:
    attack.refused(name, attack.read, '/dev/' + name)
attack.end()
",
    );
}

#[test]
fn the_runtime_and_mounted_directories_cannot_be_changed() {
    // Accessible to every user, because the sandbox may run as another user than the test.
    let directory = tempfile::tempdir().unwrap();
    let open_to_all = std::os::unix::fs::PermissionsExt::from_mode(0o777);
    fs::set_permissions(directory.path(), open_to_all).unwrap();
    fs::write(directory.path().join("module.py"), "answer = 42\n").unwrap();
    for sandbox in sandboxes() {
        let (program, _) = program(
            "
import attack, os, sys
sys.path.insert(0, '/opt/packages')
import module
assert module.answer == 42
for path in ['/opt/packages/module.py', os.__file__, '/usr/bin/env', sys.executable]:
    attack.refused('write to ' + path, attack.write, path, 'r+b')
    attack.refused('remove ' + path, os.remove, path)
    attack.refused('rename ' + path, os.rename, path, path + '.old')
    attack.refused('change mode of ' + path, os.chmod, path, 0o777)
    attack.refused('change times of ' + path, os.utime, path)
for directory in ['/opt/packages', '/opt', os.path.dirname(os.__file__), '/usr/local/lib']:
    attack.refused('write below ' + directory, attack.write, directory + '/new.py')
attack.end()
",
        );
        let program =
            Program { read_only: vec![("packages".to_owned(), directory.path().to_owned())], ..program };
        let outcome = sandbox.run(&program, &limits()).unwrap();
        assert_eq!(outcome.stdout.text(), "the end\n", "{}", outcome.stderr.text());
        assert_eq!(outcome.ended, Ended::Exited { code: 0 });
    }
    let names: Vec<_> =
        fs::read_dir(directory.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, ["module.py"]);
    assert_eq!(fs::read_to_string(directory.path().join("module.py")).unwrap(), "answer = 42\n");
}
