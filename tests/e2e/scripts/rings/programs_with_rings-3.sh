cd $M \
    && UV_USE_IO_URING=1 node -e "
const f = require('fs').promises;
(async () => {
    await f.writeFile('n', 'x'.repeat(99999));
    await f.mkdir('d');
    await f.rename('n', 'd/m');
    console.log((await f.stat('d/m')).size, (await f.readFile('d/m')).length, await f.readdir('d'));
})();
"
