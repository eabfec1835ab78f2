package evidence

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

var epoch = time.Date(2026, 1, 2, 3, 4, 5, 6789, time.UTC)

// chainOf makes a chain of n records.
func chainOf(t interface{ Fatal(...any) }, name string, n int) ([]Entry, Head) {
	head := Genesis(name)
	var entries []Entry
	for i := range n {
		e, next, err := head.Append("step", epoch.Add(time.Duration(i)*time.Second), map[string]any{"i": i, "text": strings.Repeat("ü<", i)})
		if err != nil {
			t.Fatal(err)
		}
		entries, head = append(entries, e), next
	}
	return entries, head
}

func TestChain_WhatWasAppendedVerifies(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(0, 12).Draw(t, "n")
		entries, head := chainOf(t, "run x", n)
		records, got, err := Verify("run x", entries)
		if err != nil || got != head || len(records) != n {
			t.Fatal(records, got, head, err)
		}
		for i, r := range records {
			if r.N != i+1 || r.Type != "step" || !r.At.Equal(epoch.Add(time.Duration(i)*time.Second)) {
				t.Fatalf("%+v", r)
			}
		}
	})
}

// Any byte, name or order that is not as it was written is found, and the entry
// is named.
func TestChain_TamperingIsFoundAndNamed(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		entries, _ := chainOf(t, "c", rapid.IntRange(2, 8).Draw(t, "n"))
		i := rapid.IntRange(0, len(entries)-1).Draw(t, "i")
		want := []string{entries[i].Name}
		switch what := rapid.SampledFrom([]string{"flip", "cut", "grow", "rename", "swap", "drop", "twice", "other"}).Draw(t, "what"); what {
		case "flip":
			data := bytes.Clone(entries[i].Data)
			at := rapid.IntRange(0, len(data)-1).Draw(t, "at")
			data[at] ^= byte(rapid.IntRange(1, 255).Draw(t, "bits"))
			entries[i].Data = data
		case "cut":
			entries[i].Data = entries[i].Data[:rapid.IntRange(0, len(entries[i].Data)-1).Draw(t, "to")]
		case "grow":
			entries[i].Data = append(bytes.Clone(entries[i].Data), rapid.SampledFrom([]string{"\n", " ", "{}\n", "x"}).Draw(t, "more")...)
		case "rename":
			entries[i].Name = rapid.SampledFrom([]string{"1-step.json", "0009-step.json", "0000-step.json", entries[i].Name + ".json", "00" + entries[i].Name, "0001-ste p.json", ".json"}).Draw(t, "name")
			want = []string{entries[i].Name, lostName(i + 1)}
		case "swap":
			j := (i + 1) % len(entries)
			want = append(want, entries[j].Name, lostName(min(i, j)+1))
			entries[i], entries[j] = entries[j], entries[i]
		case "drop":
			i = min(i, len(entries)-2) // the last one is what a seal is for
			want = []string{lostName(i + 1)}
			entries = slices.Delete(entries, i, i+1)
		case "twice":
			entries = slices.Insert(slices.Clone(entries), i, entries[i])
		case "other":
			others, _ := chainOf(t, "d", len(entries))
			entries[i] = others[i]
			if i+1 < len(entries) {
				want = append(want, entries[i+1].Name)
			}
		}
		records, _, err := Verify("c", entries)
		var f *Fault
		if !errors.As(err, &f) || records != nil || !slices.Contains(want, f.Entry) {
			t.Fatalf("%d records, %v, want a fault of %v", len(records), err, want)
		}
	})
}

func TestChain_OnlyTheLastCanBeTorn(t *testing.T) {
	t.Parallel()
	for _, at := range []int{0, 2} {
		entries, _ := chainOf(t, "c", 3)
		entries[at].Data = entries[at].Data[:10]
		_, _, err := Verify("c", entries)
		var f *Fault
		if !errors.As(err, &f) || f.Torn != (at == 2) {
			t.Errorf("entry %d: %v", at, err)
		}
	}
}

func TestChain_TakesNoTypeThatIsNoName(t *testing.T) {
	t.Parallel()
	for _, typ := range []string{"", "../x", "a-b", "A", "a.json", "a/b", strings.Repeat("x", 41)} {
		if _, _, err := Genesis("c").Append(typ, epoch, nil); err == nil {
			t.Errorf("%q was taken", typ)
		}
	}
	if _, _, err := Genesis("c").Append("big", epoch, strings.Repeat("x", MaxRecord)); err == nil {
		t.Error("a record without a bound was taken")
	}
}

// A changed byte of a seal, or of anything that it seals, is found.
func TestSeal_HoldsEveryFile(t *testing.T) {
	t.Parallel()
	entries, head := chainOf(t, "c", 3)
	files := map[string]string{"a": Digest([]byte("a")), "receipts/" + entries[0].Name: Digest(entries[0].Data)}
	data, err := NewSeal("c", head, epoch, files, map[string]int{"code": 0})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := CheckSeal("final.json", data, "c", head, files); err != nil {
		t.Fatal(err)
	}
	for i := range data {
		bad := bytes.Clone(data)
		bad[i] ^= 1
		if _, err := CheckSeal("final.json", bad, "c", head, files); err == nil {
			t.Errorf("byte %d (%q) was changed to %q", i, data[i], bad[i])
		}
	}
	for name, c := range map[string]struct {
		head  Head
		files map[string]string
		entry string
	}{
		"another head": {Head{2, head.Sum}, files, "final.json"},
		"one missing":  {head, map[string]string{"a": files["a"]}, "receipts/" + entries[0].Name},
		"one changed":  {head, map[string]string{"a": Digest(nil), "receipts/" + entries[0].Name: Digest(entries[0].Data)}, "a"},
		"one added":    {head, map[string]string{"a": files["a"], "receipts/" + entries[0].Name: Digest(entries[0].Data), "b": ""}, "b"},
	} {
		_, err := CheckSeal("final.json", data, "c", c.head, c.files)
		var f *Fault
		if !errors.As(err, &f) || f.Entry != c.entry {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func FuzzVerify(f *testing.F) {
	entries, _ := chainOf(f, "c", 3)
	f.Add(entries[0].Name, entries[0].Data, entries[1].Name, entries[1].Data)
	f.Add("0001-step.json", []byte("{}\n"), "0002-torn.json", []byte(""))
	f.Fuzz(func(t *testing.T, name string, data []byte, name2 string, data2 []byte) {
		records, head, err := Verify("c", []Entry{{name, data}, {name2, data2}})
		if (err == nil) != (len(records) == 2) || err == nil && head.Sum != Digest(data2) {
			t.Fatal(records, head, err)
		}
		for i, r := range records {
			// What verifies has one spelling: it is what would be written.
			again, _, err := map[int]Head{0: Genesis("c"), 1: {1, Digest(data)}}[i].Append(r.Type, r.At, r.Body)
			if err != nil || !bytes.Equal(again.Data, [][]byte{data, data2}[i]) {
				t.Fatal(fmt.Sprintf("%s\n%s", again.Data, [][]byte{data, data2}[i]), err)
			}
		}
	})
}

// What a fault says is kept when it is said where its directory is.
func TestFault_InADirectoryKeepsWhatItSays(t *testing.T) {
	t.Parallel()
	for _, f := range []Fault{{Entry: "e", Message: "m", missing: true}, {Entry: "e", Message: "m", Torn: true}} {
		want := f
		want.Entry = "a/b/e"
		err := Within("a", Within("b", fmt.Errorf("read: %w", &f)))
		if got, is := errors.AsType[*Fault](err); !is || *got != want || f.Entry != "e" {
			t.Errorf("%+v, want %+v", got, want)
		}
	}
	if err := Within("a", io.EOF); err != io.EOF { //nolint:errorlint // it is the same
		t.Error(err)
	}
	if Within("a", nil) != nil {
		t.Error("a fault without one")
	}
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	parent, err := OpenDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer parent.Close()
	_, _, err = ReadChain(parent, "none", "c")
	if f, is := errors.AsType[*Fault](err); !is || !f.Missing() {
		t.Error(err)
	}
}
