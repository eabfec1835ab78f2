package ledger

import (
	"path/filepath"
	"testing"
	"time"
)

func TestVerify_DoesNotMindAClockThatWasSetBack(t *testing.T) {
	s := Open(filepath.Join(t.TempDir(), "ledger"))
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	s.now = func() time.Time {
		now = now.Add(-24 * time.Hour)
		return now
	}
	l, err := s.Create("a", Opening{Text: []byte("x")})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for range 3 {
		if _, err := l.Append("step", nil); err != nil {
			t.Fatal(err)
		}
	}
	b, err := s.Export("a")
	if err != nil {
		t.Fatal(err)
	}
	data, err := b.Encode()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Verify(data, nil); err != nil {
		t.Error(err)
	}
}
