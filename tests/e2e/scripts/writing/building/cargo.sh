export PATH=@home@/bin:$PATH
cp -r @sources@ vendor
mkdir -p p/src p/.cargo cargo-home
export CARGO_HOME=$M/cargo-home
cd p
printf '[source.crates-io]\nreplace-with = "v"\n[source.v]\ndirectory = "%s"\n' $M/vendor > .cargo/config.toml
printf '[package]\nname = "p"\nversion = "0.1.0"\nedition = "2021"\nbuild = "build.rs"\n[dependencies]\n@package@ = "*"\n' > Cargo.toml
echo 'fn main() { std::fs::write(std::path::Path::new(&std::env::var("OUT_DIR").unwrap()).join("x.rs"), "pub const X: u32 = 7;").unwrap(); }' > build.rs
echo 'include!(concat!(env!("OUT_DIR"), "/x.rs")); fn main() { println!("hello {X}"); } #[test] fn it() { assert_eq!(X, 7); }' > src/main.rs
b() { cargo "$@" 2>&1 | sed -E 's/ in [0-9.]+s//; s/ target\(s\)//; s/-[0-9a-f]{16}//g'; }
b build -q
b build
./target/debug/p
touch src/main.rs
b build
sed -i 's/hello/again/' src/main.rs
b run -q
b test -q 2>&1 | grep 'test result' | sed 's/;.*//'
(
    b build -q --target-dir t2 &
    b build -q --target-dir t2
    wait
)
ls t2/debug/p
find target -type f -links +1 | grep -c . | sed 's/[0-9]*[1-9]/linked/'
b clean -q
ls
rm -rf t2 $M/vendor $M/cargo-home
