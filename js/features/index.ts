/** The features of a widget of one graph. Each is gone when its line and its folder are deleted. */
import "./compiled/opening";
import "./experiments/what_if";
import "./interact/number_inputs";
import "./plan/plugin";
import "./quiz/quiz";
import "./ranks/plugin";
