/** The features of a picture in a file. */
import "./plan/still";
import "./ranks/still";
