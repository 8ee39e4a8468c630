cd $M
node -e '
const fs = require("fs");
console.log(
    require("./node").value,
    fs.readdirSync("bin").sort(),
    fs.statSync("words").size,
    fs.existsSync("missing"),
    fs.realpathSync("bin/../words"),
);
'
# What ends first is said first, in no order.
node -e '
const fs = require("fs");
fs.promises.readFile(process.env.M + "/words", "utf8").then((t) => console.log(t.length));
fs.createReadStream(process.env.M + "/words", { start: 5, end: 20 }).on("data", (d) =>
    console.log(d.toString()),
);
fs.readFile("missing", (e) => console.log(e.code));
fs.writeFile("new", "", (e) => console.log(e.code));
try {
    fs.mkdirSync("d");
} catch (e) {
    console.log(e.code);
}
' | sort
cd /
node $M/node/main.js
node -p 'require(process.env.M + "/node/package.json").version'
node -e '
const { execFileSync, spawnSync } = require("child_process");
console.log(
    execFileSync("head", ["-n", "2", "words"], { cwd: process.env.M }).toString(),
    spawnSync(process.env.M + "/bin/hello").status,
);
'
