package fileform

import (
	"encoding/json"
	"errors"
	"fmt"
)

// FieldError says of a value of a wrong type in which field it is and what it is: "metadata.uid is a number". Any other
// error is returned as it is.
func FieldError(err error) error {
	var wrong *json.UnmarshalTypeError
	if errors.As(err, &wrong) && wrong.Field != "" {
		return fmt.Errorf("%s is a %s", wrong.Field, wrong.Value)
	}
	return err
}
