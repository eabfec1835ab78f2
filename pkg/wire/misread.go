package wire

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"
)

// Misread says what is wrong with JSON that could not be decoded: which key, and
// what was expected there, in words of JSON and none of Go.
func Misread(err error) string {
	wrong, ok := errors.AsType[*json.UnmarshalTypeError](err)
	if !ok {
		return strings.TrimPrefix(err.Error(), "json: ")
	}
	text := kindOf(wrong.Type) + " is expected, not " + valueOf(wrong.Value)
	if wrong.Field == "" {
		return text
	}
	return wrong.Field + ": " + text
}

// kindOf is what a type is in JSON.
func kindOf(t reflect.Type) string {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch t.Kind() {
	case reflect.String:
		return "a string"
	case reflect.Bool:
		return "true or false"
	case reflect.Slice, reflect.Array:
		return "an array"
	case reflect.Struct, reflect.Map:
		return "an object"
	case reflect.Float32, reflect.Float64:
		return "a number"
	default:
		return "a whole number that is not too large"
	}
}

// valueOf is what package json calls a value, with an article.
func valueOf(value string) string {
	kind, _, _ := strings.Cut(value, " ")
	switch kind {
	case "bool":
		return "true or false"
	case "array", "object":
		return "an " + kind
	}
	return "a " + value
}
