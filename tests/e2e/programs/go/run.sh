# A module without dependencies: built, run, tested and checked.
set -eu
export GOFLAGS=-mod=mod GOPROXY=off GOTOOLCHAIN=local
go build -o sorting .
./sorting c a b
go vet ./...
go test ./... | sed 's/\t[0-9.]*s$//; s/\t(cached)$//'
go run . z y
go list ./...
