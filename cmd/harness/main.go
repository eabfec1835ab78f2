package main

import (
	"os"

	_ "harness/pkg/prefault" // every start is shorter by it
)

func main() {
	os.Exit(execute(os.Args[1:]))
}
