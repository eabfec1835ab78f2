package reconcile

import (
	"reflect"
	"strings"
	"testing"
	"time"
)

// leaf is one field of a definition, by the path of fields that leads to it.
type leaf struct {
	path  string // such as "Upstream.Tools.Allow"
	index []int
}

// leaves lists the fields of a struct and of the structs inside it.
func leaves(t reflect.Type) []leaf {
	var list []leaf
	for i := range t.NumField() {
		field := t.Field(i)
		if field.Type.Kind() != reflect.Struct {
			list = append(list, leaf{field.Name, []int{i}})
			continue
		}
		for _, inner := range leaves(field.Type) {
			list = append(list, leaf{field.Name + "." + inner.path, append([]int{i}, inner.index...)})
		}
	}
	return list
}

// alter gives a field another value.
func alter(tb testing.TB, v reflect.Value) {
	tb.Helper()
	switch v.Kind() {
	case reflect.String:
		v.SetString(v.String() + "x")
	case reflect.Bool:
		v.SetBool(!v.Bool())
	case reflect.Int, reflect.Int64:
		v.SetInt(v.Int() + int64(time.Second))
	case reflect.Uint64:
		v.SetUint(v.Uint() + 1)
	case reflect.Slice:
		grown := reflect.MakeSlice(v.Type(), v.Len()+1, v.Len()+1)
		reflect.Copy(grown, v)
		v.Set(grown)
	case reflect.Array:
		alterElement(v.Index(0))
	case reflect.Map:
		grown := reflect.MakeMap(v.Type())
		for key, value := range v.Seq2() {
			grown.SetMapIndex(key, value)
		}
		grown.SetMapIndex(reflect.ValueOf("another"), reflect.Zero(v.Type().Elem()))
		v.Set(grown)
	default:
		tb.Fatalf("alter does not know how to change a %s; teach it", v.Type())
	}
}

func alterElement(v reflect.Value) { v.SetUint(v.Uint() ^ 1) }

// altered returns a copy of base in which one field has another value.
func altered[T any](tb testing.TB, base T, l leaf) T {
	tb.Helper()
	alter(tb, reflect.ValueOf(&base).Elem().FieldByIndex(l.index))
	return base
}

// everyField calls check for each field of T that is not excluded, with two
// values that differ in that field alone, and fails when a name in excluded is
// no field of T. excluded gives each one's reason.
func everyField[T any](t *testing.T, excluded map[string]string, check func(t *testing.T, field string, a, b T)) {
	t.Helper()
	var base T
	left := len(excluded)
	for _, l := range leaves(reflect.TypeFor[T]()) {
		if why, ok := excluded[l.path]; ok {
			left--
			if strings.TrimSpace(why) == "" {
				t.Errorf("%s is excluded without a reason", l.path)
			}
			continue
		}
		t.Run(l.path, func(t *testing.T) { check(t, l.path, base, altered(t, base, l)) })
	}
	if left != 0 {
		t.Errorf("excluded names %d fields that do not exist: %v", left, excluded)
	}
}
