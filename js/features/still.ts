/** The features of a picture in a file. */
import "./ranks/still";
