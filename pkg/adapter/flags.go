package adapter

import (
	"slices"
	"strings"
)

// option is one value of a flag among arguments.
type option struct {
	value string
	end   int // index behind it
}

// options lists the values that the flags have in args, in any of the ways to
// write them: --flag value, --flag=value, -fvalue and -f=value. Of a flag that
// takes many, all words up to the next flag are values.
func options(args []string, many bool, flags ...string) []option {
	var list []option
	for i := 0; i < len(args) && args[i] != "--"; i++ {
		if value, ok := attached(args[i], flags); ok {
			list = append(list, option{value, i + 1})
			continue
		}
		if !slices.Contains(flags, args[i]) || i+1 == len(args) {
			continue
		}
		i++
		list = append(list, option{args[i], i + 1})
		for many && i+1 < len(args) && !strings.HasPrefix(args[i+1], "-") {
			i++
			list = append(list, option{args[i], i + 1})
		}
	}
	return list
}

// attached returns the value that is in one word with its flag.
func attached(word string, flags []string) (value string, ok bool) {
	for _, flag := range flags {
		value, ok := strings.CutPrefix(word, flag)
		if !ok || value == "" {
			continue
		}
		if value, ok := strings.CutPrefix(value, "="); ok {
			return value, true
		}
		if !strings.HasPrefix(flag, "--") {
			return value, true
		}
	}
	return "", false
}
