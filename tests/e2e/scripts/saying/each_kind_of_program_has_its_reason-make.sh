export PATH=$PATH:/usr/local/go/bin GOCACHE=$W/cache GOPATH=$W/go GOTOOLCHAIN=local
printf 'package main\nfunc main() {}\n' > g.go
CGO_ENABLED=0 go build -o g g.go || exit
./g
