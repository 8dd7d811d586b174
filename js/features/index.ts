/** The features of a widget of one graph. Each is gone when its line and its folder are deleted. */
import "./compiled/plugin";
import "./experiments/plugin";
import "./interact/plugin";
import "./plan/plugin";
import "./quiz/plugin";
import "./ranks/plugin";
