package config_test

import (
	"fmt"
	"strings"
	"testing"

	"harness/pkg/config"
)

// thousand is a file of 1,000 upstreams as people write them.
func thousand() string {
	var b strings.Builder
	for i := range 1000 {
		fmt.Fprintf(&b, "[mcp.up-%d]\ncmd = \"server-%d\"\nargs = [\"--transport\", \"stdio\"]\n"+
			"env = { A = \"${HOME_DIR}\", B = \"two\" }\nrestart_delay = \"2s\"\ndescription = \"number %d\"\n\n", i, i, i)
	}
	return b.String()
}

func BenchmarkLoad_ThousandTables(b *testing.B) {
	text := thousand()
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		if _, _, faults := load(text, config.Global); len(faults) > 0 {
			b.Fatal(faults)
		}
	}
}
