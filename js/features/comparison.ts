/** The features of a comparison. */
import "./numerics/comparison";
import "./compiled/compared";
