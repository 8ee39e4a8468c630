cd $M
printf '#include <node_api.h>\nstatic napi_value init(napi_env e, napi_value x) { napi_value n; napi_create_int32(e, 42, &n); napi_set_named_property(e, x, "answer", n); return x; }\nNAPI_MODULE(fast, init)\n' \
    | cc -shared -fPIC -I/usr/include/node -I/usr/local/include/node -o fast.node -xc -
cp $(type -P node) own-node
./own-node -p 'require("./fast.node").answer + process.execPath + process.argv0 + require("child_process").execFileSync(process.execPath, ["-p", "1+1"])'
