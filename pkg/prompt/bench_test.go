package prompt

import (
	"fmt"
	"strings"
	"testing"
)

const typical = `---
title: Review a change
description: Reviews the diff of a branch against main.
arguments:
  - name: branch
    description: the branch to review
    required: true
  - name: tone
---
Review {{branch}} against main{{ tone }}.
`

func BenchmarkParse(b *testing.B) {
	for name, data := range map[string]string{
		"typical":         typical + strings.Repeat("A line of the prompt's text.\n", 100),
		"no front matter": strings.Repeat("A line of the prompt's text.\n", 100),
		"1 MiB body":      typical + strings.Repeat("0123456789abcde\n", 1<<16-1<<10),
		"1 MiB braces":    strings.Repeat("{", MaxFile),
		"64 KiB front":    "---\na: [" + strings.Repeat("[],", 21000) + "]\n---\nx\n",
		"64 KiB keys":     "---\n" + manyKeys(6000) + "---\nx\n",
	} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(data)))
			b.ReportAllocs()
			for b.Loop() {
				if _, _, fault := Parse("p.md", []byte(data)); fault != nil {
					b.Fatal(fault)
				}
			}
		})
	}
}

func manyKeys(n int) string {
	var s strings.Builder
	for i := range n {
		fmt.Fprintf(&s, "k%d: v\n", i)
	}
	return s.String()
}

func BenchmarkRender(b *testing.B) {
	for name, body := range map[string]string{
		"typical": typical,
		"1 MiB":   strings.Repeat("0123456789{{branch}}{{ other }}\n", 1<<15),
	} {
		b.Run(name, func(b *testing.B) {
			p := &Prompt{Arguments: []Argument{{Name: "branch", Required: true}}, Body: []byte(body)}
			args := map[string]string{"branch": "main"}
			b.SetBytes(int64(len(body)))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := p.Render(args); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkCollect is one pass over 100 unchanged files.
func BenchmarkCollect(b *testing.B) {
	d := Dir{Path: "/prompts"}
	for i := range 100 {
		d.Entries = append(d.Entries, Entry{Name: fmt.Sprintf("p%d.md", i), Data: []byte(typical)})
	}
	var kept map[string]*Prompt
	b.ReportAllocs()
	for b.Loop() {
		_, _, kept = Collect([]Dir{d}, kept)
	}
}
