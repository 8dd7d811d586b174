// Style sheets are read as they are: the contrast of their colours is tested.
export default { test: { css: true } };
