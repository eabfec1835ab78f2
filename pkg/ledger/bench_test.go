package ledger_test

import (
	"os"
	"path/filepath"
	"testing"

	"harness/pkg/ledger"
)

// BenchmarkVerify checks a bundle of 10,000 entries.
func BenchmarkVerify(b *testing.B) {
	dir := "/dev/shm" // without a disk, which 10,000 entries would wait for
	if _, err := os.Stat(dir); err != nil {
		dir = ""
	}
	dir, err := os.MkdirTemp(dir, "ledger") //nolint:usetesting // see above
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { os.RemoveAll(dir) })
	s := ledger.Open(filepath.Join(dir, "ledger"))
	begin(b, s, "a", 9_999)
	data := export(b, s, "a")
	b.SetBytes(int64(len(data)))
	for b.Loop() {
		if _, err := ledger.Verify(data, nil); err != nil {
			b.Fatal(err)
		}
	}
}
