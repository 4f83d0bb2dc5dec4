package fileform

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"
)

// FieldError says of a value of a wrong type in which field it is and what it is: "metadata.uid is a number". Any other
// error is returned as it is.
func FieldError(err error) error {
	var wrong *json.UnmarshalTypeError
	if !errors.As(err, &wrong) || wrong.Field == "" {
		return err
	}
	// A decoder also names the structs that are embedded in others, which no file has.
	names := slices.DeleteFunc(strings.Split(wrong.Field, "."), func(name string) bool {
		return name == "" || unicode.IsUpper(rune(name[0]))
	})
	return fmt.Errorf("%s is a %s", strings.Join(names, "."), wrong.Value)
}
