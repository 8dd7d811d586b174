import "../features/live/plugin";
import "./entry";
