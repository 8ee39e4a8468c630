cat > t.js << 'END'
const fs = require('fs'),
    p = require('path'),
    cp = require('child_process');
const d = process.env.M + '/n';
fs.mkdirSync(p.join(d, 'a/b'), { recursive: true });
fs.writeFileSync(d + '/f', 'hello');
fs.appendFileSync(d + '/f', ' world');
console.log(fs.readFileSync(d + '/f', 'utf8'), fs.statSync(d + '/f').size);
fs.copyFileSync(d + '/f', d + '/g');
fs.renameSync(d + '/g', d + '/a/h');
fs.linkSync(d + '/f', d + '/hard');
fs.symlinkSync('f', d + '/soft');
console.log(
    fs.readlinkSync(d + '/soft'),
    fs.lstatSync(d + '/soft').isSymbolicLink(),
    fs.statSync(d + '/f').nlink,
    fs.realpathSync(d + '/soft') === d + '/f',
);
fs.truncateSync(d + '/f', 5);
fs.chmodSync(d + '/f', 0o600);
fs.utimesSync(d + '/f', 1, 2);
const s = fs.statSync(d + '/f', { bigint: true });
console.log(s.size, (s.mode & 0o777n).toString(8), s.mtimeNs);
for (const [what, call] of Object.entries({
    exclusive: () => fs.writeFileSync(d + '/f', '', { flag: 'wx' }),
    missing: () => fs.readFileSync(d + '/none'),
    rmdir: () => fs.rmdirSync(d),
    unlink: () => fs.unlinkSync(d + '/a'),
    mkdir: () => fs.mkdirSync(d + '/f'),
    open: () => fs.openSync(d + '/f/x'),
}))
    try {
        call();
        console.log(what, 'WORKED');
    } catch (e) {
        console.log(what, e.code, e.syscall);
    }
console.log(
    fs
        .readdirSync(d, { withFileTypes: true })
        .map((e) => e.name + e.isDirectory())
        .sort(),
    fs.readdirSync(d, { recursive: true }).sort(),
);
fs.cpSync(d + '/a', d + '/copy', { recursive: true });
const fd = fs.openSync(d + '/rw', 'w+');
fs.writeSync(fd, 'abcdef', 3);
fs.writevSync(fd, [Buffer.from('12'), Buffer.from('34')], 10);
const b = Buffer.alloc(20);
console.log(fs.readSync(fd, b, 0, 20, 0), b.toString('hex'));
fs.fsyncSync(fd);
fs.ftruncateSync(fd, 4);
fs.closeSync(fd);
const c = cp.spawnSync('sh', ['-c', 'cat; echo err >&2'], {
    cwd: d,
    input: 'in',
    stdio: ['pipe', fs.openSync(d + '/out', 'w'), fs.openSync(d + '/err', 'a')],
});
console.log(c.status, fs.readFileSync(d + '/out', 'utf8'), fs.readFileSync(d + '/err', 'utf8'));
(async () => {
    await Promise.all(
        [...Array(50).keys()].map((i) => fs.promises.writeFile(d + '/p' + i, String(i).repeat(i))),
    );
    console.log(
        (
            await Promise.all(
                [...Array(50).keys()].map((i) => fs.promises.readFile(d + '/p' + i, 'utf8')),
            )
        ).join('').length,
    );
    const h = await fs.promises.open(d + '/h', 'a+');
    await Promise.all([...Array(20)].map(() => h.appendFile('line\n')));
    console.log((await fs.promises.stat(d + '/h')).size);
    let n = 0;
    for await (const l of h.readLines({ start: 0 })) n++;
    console.log(n);
    await h.close().catch(() => {});
    const w = fs.createWriteStream(d + '/stream');
    for (let i = 0; i < 3000; i++) w.write('line ' + i + '\n');
    w.end(() => {
        let t = 0;
        fs.createReadStream(d + '/stream', { start: 100 })
            .on('data', (x) => (t += x.length))
            .on('end', async () => {
                console.log(t);
                await fs.promises.rm(d, { recursive: true });
                console.log(fs.existsSync(d));
            });
    });
})();
END
node t.js
